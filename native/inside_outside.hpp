// Inside and outside passes over trees under a latent-variable grammar: probabilities, messages, expected counts
// (the E-step), and the most probable hidden states.
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

// A rule a -> b c: where the probabilities of the states of both children start, those of the first state of a.
struct GrammarRule {
  std::int64_t parent, left, right, at;
};
// A pair of a label and a word.
struct GrammarWord {
  std::int64_t label, at;
};

struct GrammarView {
  const std::int64_t* states;    // of each label
  const std::int64_t* state_at;  // the first state of each label among those of all
  const std::int64_t* width;     // of each label: numbers from one state's distribution to the next one's
  const GrammarRule* rules;
  const GrammarWord* lexicon;
  const double* values;    // first the root's, one for each state of each label
  const double* any_word;  // of each state of each label: the sum of its words
  // What is expected of unseen rules and words: how probable they are below each label, and what they are then.
  const double* pair;
  const double* word;
  const double* children;  // of each state of each label
  const double* words;
};

// Nodes in post-order, where children stand before their parent: the right one directly, the left one before its
// subtree.
struct TreesView {
  const std::int32_t* labels;
  const std::int32_t* left;     // -1 at preterminals
  const std::int32_t* words;    // a word at preterminals, or any_word
  const std::int32_t* rule;     // or of the lexicon; -1 where there is none
  const std::int64_t* offsets;  // the first node of each tree, and the number of nodes
  const std::int64_t* node_at;  // the first state of each node among those of all nodes
  std::int64_t count;
};

constexpr std::int32_t missing_word = -2;

// Messages of the nodes of one tree or of all, each scaled by a power of two so that its largest number is between
// 1/2 and 1. Where a tree begins is subtracted from places.
struct TreeMessages {
  double* inside;
  double* outside;
  std::int64_t* exponent;  // of each node: by which power of two the inside message is to be multiplied
  double* pairs;           // of the states of two children: their products, then the sum of a rule over its states
  std::int32_t* best;      // of each state of each node: the pair of its children's states that is most probable
};

struct InsideOutsideLoops {
  // The probability of a tree is mantissa times two to the exponent.
  void (*inside)(const GrammarView&, const TreesView&, std::int64_t tree, const TreeMessages&, double* mantissa,
                 std::int64_t* exponent);
  // Adds to `counts` what is to be multiplied by the values, and to `any` by the words of a label; either or both
  // may be null, and a tree that is impossible adds nothing.
  void (*outside)(const GrammarView&, const TreesView&, std::int64_t tree, const TreeMessages&, double weight,
                  double* counts, double* any);
  // The most probable states of a tree's nodes, and their joint probability with the tree.
  void (*decode)(const GrammarView&, const TreesView&, std::int64_t tree, const TreeMessages&, std::int32_t* states,
                 double* mantissa, std::int64_t* exponent);
};
EIGENTREE_TABLES(InsideOutsideLoops, inside_outside_loops)

}  // namespace eigentree
