#include <cmath>

#include "chain_steps.hpp"
#include "state_posteriors.hpp"

namespace eigentree::LOOPS {
namespace {

// What is ahead is divided by its total where that is less.
constexpr double Tiny = 0x1p-200;

// The passes for a known number of states, or any (0).
template <int K>
class Sequence {
 public:
  Sequence(const StatePass& all, Index given_number)
      : pass(all),
        number(given_number),
        begin(all.starts[given_number]),
        count(all.starts[given_number + 1] - all.starts[given_number]) {}

  // P(state of a step | steps up to it), and the full message at the end.
  void filter() const {
    fill(pass.proba + begin * states(), count * states(), 0.0);
    double* end = pass.ends + number * pass.chain.widest;
    fill(end, pass.chain.widest, 0.0);
    if (count == 0 || !forward()) return;
    for (Index t = 0; t < count; ++t) {
      double* proba = pass.proba + (begin + t) * states();
      for (Index z = 0; z < size_at(t); z += states())
        for (Index j = 0; j < states(); ++j) proba[j] += message(t)[z + j];
    }
    for (Index z = 0; z < size_at(count - 1); ++z) end[z] = message(count - 1)[z];
  }

  // P(state of a step | all steps of its sequence).
  void smooth() const {
    fill(pass.proba + begin * states(), count * states(), 0.0);
    if (count == 0 || !forward()) return;
    double *ahead = pass.ahead, *seen = pass.ahead + pass.chain.widest;
    fill(ahead, pass.chain.widest, 1.0);
    for (Index t = count - 1; t >= 0; --t) {
      const double *here = message(t), *emission = emissions_at(t);
      const Index size = size_at(t);
      double* proba = pass.proba + (begin + t) * states();
      double total = 0.0;
      in_tiles(states(), [&](Index first, auto width) {
        double sums[width.count] = {};
        for (Index z = first; z < size; z += states())
          for (int j = 0; j < width.count; ++j) {
            sums[j] += here[z + j] * ahead[z + j];
            seen[z + j] = emission[first + j] * ahead[z + j];
          }
        for (int j = 0; j < width.count; ++j) {
          proba[first + j] = sums[j];
          total += sums[j];
        }
      });
      for (Index j = 0; j < states(); ++j) proba[j] /= total;
      if (t == 0) return;
      step_back<K>(pass.chain, pass.turned, t, seen, ahead);
      const double all_ahead = total_of(ahead, size_at(t - 1));
      if (all_ahead < Tiny)
        for (Index z = 0; z < size_at(t - 1); ++z) ahead[z] /= all_ahead;
    }
  }

  // The jointly most probable states, and their log probability with the sequence.
  void decode() const {
    double *scores = pass.ahead, *next = pass.ahead + pass.chain.widest;
    pass.log_prob[number] = 0.0;
    if (count == 0) return;
    for (Index t = 0; t < count; ++t) {
      const double* emission = emissions_at(t);
      std::uint16_t* back = pass.back + t * pass.chain.widest;
      const Link link = link_at(t);
      for (Index r = 0; r < link.rest; ++r)
        in_tiles(states(), [&](Index first, auto width) {
          double best[width.count];
          std::int64_t from[width.count] = {};
          for (int j = 0; j < width.count; ++j) best[j] = t == 0 ? pass.chain.links[first + j] : -HUGE_VAL;
          for (Index d = 0; d < (t == 0 ? 0 : link.dropped); ++d) {
            const double score = scores[d * link.rest + r];
            const double* log_link = pass.chain.links + link.offset + (d * link.rest + r) * states() + first;
            for (int j = 0; j < width.count; ++j) {
              const double value = score + log_link[j];
              from[j] = value > best[j] ? d : from[j];
              best[j] = larger(best[j], value);
            }
          }
          for (int j = 0; j < width.count; ++j) {
            next[r * states() + first + j] = best[j] + emission[first + j];
            back[r * states() + first + j] = std::uint16_t(from[j]);
          }
        });
      double* other = scores;
      scores = next, next = other;
    }
    double highest = -HUGE_VAL;
    Index place = -1;
    for (Index z = 0; z < size_at(count - 1); ++z)
      if (scores[z] > highest) highest = scores[z], place = z;
    pass.log_prob[number] = highest;
    for (Index t = count - 1; t >= 0; --t) {
      pass.states[begin + t] = place < 0 ? -1 : place % states();
      if (place >= 0) place = pass.back[t * pass.chain.widest + place] * link_at(t).rest + place / states();
    }
  }

  // States sampled from the chain.
  void sample() const {
    Index place = 0;
    for (Index t = 0; t < count; ++t) {
      const Link link = link_at(t);
      const double* line = pass.chain.links + link.offset + place * states();
      double left = pass.uniform[begin + t];
      Index chosen = 0;  // the last that is possible, where rounding leaves a little
      for (Index j = 0; j < states() && left >= 0.0; ++j)
        if (line[j] > 0.0) {
          chosen = j;
          left -= line[j];
        }
      pass.states[begin + t] = chosen;
      place = place % link.rest * states() + chosen;  // without the oldest state of a full message
    }
  }

  // States sampled given the symbols of the sequence, the last first.
  void sample_given() const {
    if (count == 0) return;
    if (!forward()) return fill_states(-1);
    Index place = -1;
    double left = pass.uniform[begin + count - 1];
    for (Index z = 0; z < size_at(count - 1) && left >= 0.0; ++z)
      if (message(count - 1)[z] > 0.0) {
        left -= message(count - 1)[z];
        place = z;
      }
    if (place < 0) return fill_states(-1);
    for (Index t = count - 1; t >= 0; --t) {
      pass.states[begin + t] = place % states();
      if (t == 0) return;
      // P(dropped state | the others and all steps up to t) is a message times a column of the link.
      const Link link = link_at(t);
      const Index kept = place / states();
      const double* column = pass.turned + link.offset + place * link.dropped;
      const double* before = message(t - 1) + kept;
      double total = 0.0;
      for (Index d = 0; d < link.dropped; ++d) total += before[d * link.rest] * column[d];
      left = pass.uniform[begin + t - 1] * total;
      place = kept;
      for (Index d = 0; d < link.dropped && left >= 0.0; ++d) {
        const double chance = before[d * link.rest] * column[d];
        if (chance > 0.0) {
          left -= chance;
          place = d * link.rest + kept;
        }
      }
    }
  }

 private:
  const StatePass& pass;
  const Index number, begin, count;

  INLINE Index states() const { return K ? K : pass.chain.states; }
  INLINE Link link_at(Index t) const { return link_of(t, states(), pass.chain.order); }
  // Numbers of the message of a step.
  INLINE Index size_at(Index t) const { return link_at(t).rest * states(); }
  INLINE double* message(Index t) const { return pass.messages + t * pass.chain.widest; }
  INLINE const double* emissions_at(Index t) const { return pass.emissions + pass.steps[begin + t] * states(); }

  static void fill(double* numbers, Index size, double value) {
    for (Index k = 0; k < size; ++k) numbers[k] = value;
  }
  void fill_states(Index state) const {
    for (Index t = 0; t < count; ++t) pass.states[begin + t] = state;
  }

  // The distribution of the latest hidden states at each step, given all steps up to it; whether that is possible.
  bool forward() const {
    for (Index t = 0; t < count; ++t) {
      double* here = message(t);
      step_on<K>(pass.chain, t, here - pass.chain.widest, emissions_at(t), here);
      const double total = total_of(here, size_at(t));
      if (!(total > 0.0)) return false;
      for (Index z = 0; z < size_at(t); ++z) here[z] /= total;
    }
    return true;
  }
};

template <int K, class Work>
void run_sequences(const StatePass& pass, Work work) {
  for (Index number = 0; number < pass.count; ++number) work(Sequence<K>(pass, number));
}

template <class Work>
void run(const StatePass& pass, Work work) {
  switch (pass.chain.states) {
    case 2:
      run_sequences<2>(pass, work);
      break;
    case 3:
      run_sequences<3>(pass, work);
      break;
    case 4:
      run_sequences<4>(pass, work);
      break;
    default:
      run_sequences<0>(pass, work);
  }
}

void filter(const StatePass& pass) {
  run(pass, [](const auto& sequence) { sequence.filter(); });
}
void smooth(const StatePass& pass) {
  run(pass, [](const auto& sequence) { sequence.smooth(); });
}
void decode(const StatePass& pass) {
  run(pass, [](const auto& sequence) { sequence.decode(); });
}
void sample(const StatePass& pass) {
  run(pass, [](const auto& sequence) { sequence.sample(); });
}
void sample_given(const StatePass& pass) {
  run(pass, [](const auto& sequence) { sequence.sample_given(); });
}

}  // namespace
}  // namespace eigentree::LOOPS

const eigentree::StatePosteriorsLoops eigentree::EIGENTREE_JOIN(state_posteriors_loops_, EIGENTREE_INSTRUCTIONS) = {
    eigentree::LOOPS::filter, eigentree::LOOPS::smooth, eigentree::LOOPS::decode, eigentree::LOOPS::sample,
    eigentree::LOOPS::sample_given};
