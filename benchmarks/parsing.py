"""Parsing: statements of Python's standard library, from tokens back to their syntax trees."""

from __future__ import annotations

import ast
import bisect
import io
import keyword
import sysconfig
import time
import tokenize
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import best_seconds, seconds, show_note, show_table
from eigentree import LatentGrammar, SpectralLatentGrammar, labelled_f1
from eigentree.data.treebanks.tree import Tree
from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.grammars.chart_tables import ChartTables
from eigentree.inference.grammars.grammar import Grammar

LEAST_TOKENS, MOST_TOKENS = 10, 40
FREE = str.maketrans({"+": "plus", "@": "at"})
"""Signs that labels of binarised trees have a use for."""

LEFT_OUT = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)
LEAST_COUNT = 3
"""How often a token occurs that is known by itself."""

LENGTHS = (20, 40)
STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Delete)


def statements(path: Path) -> Iterator[Tree]:
    """Yield the trees of a file's simple statements: nodes of `ast` above the tokens that they cover."""
    try:
        text = path.read_bytes().decode("ascii")
        module = ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return
    tokens = [
        (*token.start, token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in LEFT_OUT
    ]
    for node in ast.walk(module):
        if not isinstance(node, STATEMENTS) or any(isinstance(each, ast.JoinedStr) for each in ast.walk(node)):
            # Tokens of formatted strings differ between versions of Python.
            continue
        first = bisect.bisect_left(tokens, (node.lineno, node.col_offset))
        last = bisect.bisect_left(tokens, (node.end_lineno, node.end_col_offset))
        if LEAST_TOKENS <= last - first <= MOST_TOKENS:
            yield _tree(node, tokens[first:last])


def _tree(node: ast.AST, tokens: list[tuple[int, int, str]]) -> Tree:
    """Return the tree of a node above the tokens that it covers."""
    if len(tokens) == 1:
        return Tree(type(node).__name__, (tokens[0][2],))
    children: list[Tree] = []
    place = 0
    for child in sorted(_below(node), key=lambda each: (each.lineno, each.col_offset)):
        begin, end = (child.lineno, child.col_offset), (child.end_lineno, child.end_col_offset)
        own = [k for k, token in enumerate(tokens) if begin <= token[:2] < end]
        children += map(_tagged, tokens[place : own[0]])
        children.append(_tree(child, tokens[own[0] : own[-1] + 1]))
        place = own[-1] + 1
    children += map(_tagged, tokens[place:])
    return Tree(type(node).__name__, tuple(children))


def _tagged(token: tuple[int, int, str]) -> Tree:
    """Return a token below its tag: keywords and signs are their own, all else shares one with its like."""
    word = token[2]
    if word.isidentifier() and not keyword.iskeyword(word):
        return Tree("name", (word,))
    if word[0].isdigit() or word[-1] in "\"'":
        return Tree("literal", (word,))
    return Tree(word.translate(FREE), (word,))


def _below(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the nodes below one that stand somewhere; those that do not give way to their own."""
    for child in ast.iter_child_nodes(node):
        if hasattr(child, "lineno"):
            yield child
        else:
            yield from _below(child)


def corpus(count: int) -> tuple[list[Tree], list[Tree]]:
    """Return different statements to learn from and, of other files, to parse: a tenth of all."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    found: tuple[dict[Tree, None], dict[Tree, None]] = ({}, {})
    paths = [path for path in sorted(folder.rglob("*.py")) if not {"site-packages", "test"} & {*path.parts}]
    for path in sorted(paths, key=lambda path: zlib.crc32(str(path.relative_to(folder)).encode())):
        own = found[zlib.crc32(path.name.encode()) % 10 == 0]
        own |= dict.fromkeys(statements(path))
        if len(found[0]) >= count and len(found[1]) >= count // 10:
            break
    return list(found[0])[:count], [tree for tree in found[1] if tree not in found[0]][: count // 10]


def annotated(tree: Tree, parent: str = "ROOT") -> Tree:
    """Return a tree whose labels, but those above words, name their parents too (Johnson 1998)."""
    if len(tree.children) == 1 and isinstance(tree.children[0], str):
        return tree
    label = str(tree.label)
    below = [annotated(child, label) if isinstance(child, Tree) else child for child in tree.children]
    return Tree(f"{label}^{parent}", tuple(below))


def plain(tree: Tree) -> Tree:
    """Return a tree without the names of parents."""
    below = [plain(child) if isinstance(child, Tree) else child for child in tree.children]
    label = str(tree.label)
    return Tree(label.partition("^")[0] or label, tuple(below))


def run(quick: bool) -> None:
    """Print labelled F1 and times of grammars of more and more hidden states."""
    train, test = corpus(1_000 if quick else 5_000)
    options: dict[str, Any] = {"min_word_count": LEAST_COUNT}
    models: dict[str, Any] = {"plain, labels name their parents": LatentGrammar(1, **options, random_state=0)}
    for states in (1, 2) if quick else (1, 2, 4, 8):
        models["plain" if states == 1 else f"EM, {states} states"] = LatentGrammar(
            states, **options, random_state=0
        )
    for states in (2,) if quick else (4, 8, 16):
        models[f"spectral, {states} states"] = SpectralLatentGrammar(states, **options)
    rows = []
    for name, model in models.items():
        parents = name.endswith("parents")
        begin = time.process_time()
        model.fit([annotated(tree) for tree in train] if parents else train)
        spent = time.process_time() - begin
        for pruning in (0.0, 1e-3, 1e-2) if name.startswith("EM") else (1e-3,):
            begin = time.process_time()
            parsed = model.parse(test, pruning)
            each = 1e3 * (time.process_time() - begin) / len(test)
            found = labelled_f1(test, [plain(tree) for tree in parsed] if parents else parsed)
            shares = [
                f"{100 * share:.2f}" for share in (found.precision, found.recall, found.f1, found.exact_match)
            ]
            rows.append([name, f"{spent:.1f}", f"{pruning:g}", f"{each:.2f}", *shares])
    show_table(
        f"parsing: {len(test):,} statements of the standard library from tokens, {len(train):,} to learn from",
        ["grammar", "s to fit", "pruning", "ms each", "precision", "recall", "F1", "exact"],
        rows,
    )
    show_note(
        "processor time; precision, recall and F1 of constituents (evalb's rules), exact match of trees, in %"
    )
    _show_speed(models["EM, 2 states" if quick else "EM, 8 states"].grammar_, test)


def _show_speed(grammar: Grammar, test: Sequence[Tree]) -> None:
    rows = []
    sizes = grammar.states[grammar.symbols.rules].prod(axis=1).sum()
    for length in LENGTHS:
        words = min((tree.words for tree in test), key=lambda words: abs(len(words) - length))
        count = len(words)
        # Of all rules at all splits of all spans, inside and outside.
        triples = 2 * sizes * (count**3 - count) / 6
        runs = {f"{pruning:g}": ChartParser.of(grammar, pruning) for pruning in (0.0, 1e-3)}
        for parser in runs.values():
            parser.parse(words)
        times = best_seconds({name: partial(own.parse, words) for name, own in runs.items()}, 5, time.process_time)
        times["numpy, inside only"] = seconds(partial(_inside, grammar, words), time.process_time)
        for name, spent in times.items():
            done = triples / (2 if name.startswith("numpy") else 1)
            rows.append([f"{count}", name, f"{1e3 * spent:.1f}", f"{1e9 * spent / done:.3f}"])
    show_table(
        f"parsing: time of a sentence, {len(grammar.symbols.rules):,} rules, {sizes:,} triples of states",
        ["words", "pruning", "ms", "ns per rule, split and triple"],
        rows,
    )
    show_note("numpy: all splits of a span by one einsum for each rule")


def _inside(grammar: Grammar, words: Sequence[str | None]) -> None:
    """Fill the inside chart of a sentence in numpy."""
    symbols, at = grammar.symbols, grammar.layout.state_at
    emissions = ChartTables.of(grammar).emissions([symbols.words.code(str(word)) for word in words])
    count = len(words)
    chart = np.zeros((count + 1, count + 1, int(at[-1])))
    own = [slice(at[label], at[label + 1]) for label in range(len(grammar.states))]
    tables = [grammar.binary(rule) for rule in range(len(symbols.rules))]
    for width in range(1, count + 1):
        for i in range(count + 1 - width):
            here = chart[i, i + width]
            if width == 1:
                here[:] = emissions[i]
                continue
            left, right = chart[i, i + 1 : i + width], chart[i + 1 : i + width, i + width]
            for (a, b, c), table in zip(symbols.rules, tables, strict=True):
                here[own[a]] += np.einsum("stu,tu->s", table, left[:, own[b]].T @ right[:, own[c]])
