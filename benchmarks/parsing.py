"""Parsing: statements of Python's standard library, from tokens back to their syntax trees."""

from __future__ import annotations

import ast
import bisect
import io
import keyword
import sysconfig
import tokenize
import zlib
from collections.abc import Iterator
from pathlib import Path

from eigentree.data.treebanks.tree import Tree

LEAST_TOKENS, MOST_TOKENS = 10, 40
FREE = str.maketrans({"+": "plus", "@": "at"})
"""Signs that labels of binarised trees have a use for."""

LEFT_OUT = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)
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
