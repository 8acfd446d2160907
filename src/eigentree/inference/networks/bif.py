"""Bayesian networks as text in the Interchange Format (BIF), which pgmpy, pyagrum, bnlearn and others read."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from eigentree.errors import FileError, NetworkError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Floats

__all__ = ["BifNetwork", "BifTable", "bif_text", "parsed_bif"]

TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | "(?P<quoted>[^"\n]*)" | (?P<sign>[{}()\[\];,|])
    | (?P<word>(?:(?!//|/\*)[^\s{}()\[\];,|"])+)""",
    re.DOTALL | re.VERBOSE,
)

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

BARE = re.compile(r"""(?:(?!//|/\*)[^\s{}()\[\];,|"])+""")
"""Names that need no quotes."""

ROUNDED = 0.01
"""How far from 1 the numbers of a text may add up to: they are often rounded, and are then divided by their sum."""

EXACT = 1e-7
"""How far from 1 they may add up to and be left as they are."""


class Token(NamedTuple):
    """A sign, or a word, and the line that it stands in."""

    text: str
    sign: bool
    line: int


@dataclass(frozen=True)
class BifTable:
    """The table of one variable, as far as a text gives it.

    Attributes
    ----------
    parents : tuple of str
    line : int
    rows : dict of tuple of str to (int, list of float)
        The line and the distribution for each combination of the parents' states that is given.
    whole : (int, list of float) or None
        All numbers at once, the variable's own states slowest.
    default : (int, list of float) or None
        The distribution for all other combinations.
    """

    parents: tuple[str, ...]
    line: int
    rows: dict[tuple[str, ...], tuple[int, list[float]]] = field(default_factory=dict)
    whole: tuple[int, list[float]] | None = None
    default: tuple[int, list[float]] | None = None


@dataclass(frozen=True)
class BifNetwork:
    """A network as a text gives it.

    Attributes
    ----------
    states : dict of str to tuple of str
        The names of the states of each variable.
    lines : dict of str to int
        Where each variable is declared.
    tables : dict of str to BifTable
    """

    states: dict[str, tuple[str, ...]]
    lines: dict[str, int]
    tables: dict[str, BifTable]

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The edges, those of one child in the order of its parents."""
        return [(parent, name) for name in self.states for parent in self.tables[name].parents]

    def array(self, name: str) -> Floats:
        """Return the table of a variable, axes (parents…, name).

        Raises
        ------
        FileError
            When numbers are missing, too many, or do not add up to 1; names the line.
        """
        table = self.tables[name]
        shape = [len(self.states[each]) for each in (*table.parents, name)]
        if table.whole is not None:
            line, numbers = table.whole
            if len(numbers) != math.prod(shape):
                _refuse(line, f"the table of {name!r} has {math.prod(shape)} numbers, but {len(numbers)} are given")
            array = np.moveaxis(np.array(numbers).reshape([shape[-1], *shape[:-1]]), 0, -1)
            return _divided(array, line, name)
        places = [{state: k for k, state in enumerate(self.states[parent])} for parent in table.parents]
        array = np.full(shape, np.nan)
        if table.default is not None:
            array[...] = self._row(name, *table.default)
        for states, (line, numbers) in table.rows.items():
            if len(states) != len(places):
                _refuse(line, f"{name!r} has {len(places)} parents, but {len(states)} states are given")
            for state, place, parent in zip(states, places, table.parents, strict=True):
                if state not in place:
                    _refuse(line, f"{parent!r} has no state {state!r}{did_you_mean(state, place)}")
            array[tuple(place[state] for state, place in zip(states, places, strict=True))] = self._row(
                name, line, numbers
            )
        if np.isnan(array).any():
            _refuse(table.line, f"the table of {name!r} lacks a row for some states of its parents")
        return _divided(array, table.line, name)

    def _row(self, name: str, line: int, numbers: list[float]) -> list[float]:
        if len(numbers) != len(self.states[name]):
            count = len(self.states[name])
            _refuse(line, f"{name!r} has {count} states, but {len(numbers)} numbers are given")
        return numbers


def _divided(array: Floats, line: int, name: str) -> Floats:
    totals = array.sum(axis=-1, keepdims=True)
    if not (np.abs(totals - 1) <= ROUNDED).all():
        worst = float(totals.ravel()[np.abs(totals - 1).argmax()])
        _refuse(line, f"a distribution of {name!r} adds up to {worst:.6g}, not to 1")
    return np.asarray(array / totals) if (np.abs(totals - 1) > EXACT).any() else array


def _refuse(line: int, message: str) -> NoReturn:
    raise FileError(f"line {line}: {message}")


def bif_text(
    states: Mapping[str, Sequence[str]], parents: Mapping[str, Sequence[str]], tables: Mapping[str, Floats]
) -> str:
    """Return a network as text; numbers are written so that they are read back to the last bit.

    Raises
    ------
    NetworkError
        When a name has quotes or ends of lines in it.
    """
    lines = ["network unknown {", "}"]
    for name, own in states.items():
        listed = ", ".join(_written(state) for state in own)
        lines += [f"variable {_written(name)} {{", f"  type discrete [ {len(own)} ] {{ {listed} }};", "}"]
    for name, table in tables.items():
        above = parents[name]
        given = f" | {', '.join(_written(parent) for parent in above)}" if above else ""
        lines.append(f"probability ( {_written(name)}{given} ) {{")
        rows = table.reshape(-1, table.shape[-1]).tolist()
        for combination, row in zip(product(*(states[parent] for parent in above)), rows, strict=True):
            head = f"({', '.join(_written(state) for state in combination)})" if above else "table"
            lines.append(f"  {head} {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _written(name: str) -> str:
    if BARE.fullmatch(name):
        return name
    if not name or '"' in name or "\n" in name or "\r" in name:
        raise NetworkError(f"the name {name!r} has quotes or ends of lines in it, which a BIF text cannot hold")
    return f'"{name}"'


def parsed_bif(text: str) -> BifNetwork:
    """Return the network that a text describes.

    Raises
    ------
    FileError
        When it is none; names the line.
    """
    return _Parser(text).network()


class _Parser:
    """A text on its way to a network: the token that comes next, and what was found so far."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.next = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def take(self) -> Token:
        """Return the next token and go on."""
        token = self.token
        if not token.text:
            _refuse(token.line, "the text ends in the middle of a block")
        self.next += 1
        return token

    def expect(self, sign: str) -> None:
        """Go past a sign; refuse anything else."""
        token = self.take()
        if not token.sign or token.text != sign:
            _refuse(token.line, f"{sign!r} is expected, not {_short(token.text)}")

    def at(self, sign: str) -> bool:
        """Return whether a sign comes next."""
        return self.token.sign and self.token.text == sign

    def network(self) -> BifNetwork:
        found = BifNetwork({}, {}, {})
        while self.token.text:
            token = self.take()
            if token.text == "network":
                self.words()
                self.block_of_properties()
            elif token.text == "variable":
                self.variable(found, token.line)
            elif token.text == "probability":
                self.probability(found, token.line)
            else:
                _refuse(token.line, f"network, variable or probability is expected, not {_short(token.text)}")
        if not found.states:
            _refuse(self.token.line, "there is no variable; this is no BIF text")
        for name, line in found.lines.items():
            if name not in found.tables:
                _refuse(line, f"{name!r} has no probabilities")
        return found

    def words(self) -> list[Token]:
        """Return the words that come next."""
        start = self.next
        while self.token.text and not self.token.sign:
            self.next += 1
        return self.tokens[start : self.next]

    def name(self) -> Token:
        """Return the words that come next as one name."""
        words = self.words()
        if not words:
            _refuse(self.token.line, f"a name is expected, not {_short(self.token.text)}")
        return Token(" ".join(word.text for word in words), False, words[0].line)

    def names(self, end: str) -> list[Token]:
        """Return names up to a sign, between commas; without any comma, each word is one."""
        found = [self.words()]
        while self.at(","):
            self.next += 1
            found.append(self.words())
        line = self.token.line
        self.expect(end)
        if len(found) == 1:
            return found[0]
        if not all(found):
            _refuse(line, "a name is missing between commas")
        return [Token(" ".join(word.text for word in words), False, words[0].line) for words in found]

    def property(self) -> None:
        """Go past what a property says, to its end."""
        while not self.at(";"):
            self.take()
        self.expect(";")

    def block_of_properties(self) -> None:
        self.expect("{")
        while not self.at("}"):
            token = self.take()
            if token.text != "property":
                _refuse(token.line, f"a property is expected, not {_short(token.text)}")
            self.property()
        self.expect("}")

    def variable(self, found: BifNetwork, line: int) -> None:
        name = self.name().text
        if name in found.states:
            _refuse(line, f"the variable {_short(name)} is declared twice")
        self.expect("{")
        while not self.at("}"):
            token = self.take()
            if token.text == "property":
                self.property()
            elif token.text == "type" and name not in found.states:
                found.states[name] = self.states(name)
                found.lines[name] = line
            else:
                _refuse(token.line, f"one type, or a property, is expected, not {_short(token.text)}")
        self.expect("}")
        if name not in found.states:
            _refuse(line, f"the variable {_short(name)} has no type")

    def states(self, name: str) -> tuple[str, ...]:
        kind = self.take()
        if kind.text != "discrete":
            _refuse(kind.line, f"variables are discrete, but {_short(name)} is {_short(kind.text)}")
        self.expect("[")
        count = self.take()
        self.expect("]")
        self.expect("{")
        states = tuple(state.text for state in self.names("}"))
        if not re.fullmatch(r"[0-9]{1,9}", count.text) or int(count.text) != len(states):
            _refuse(count.line, f"{_short(name)} has {len(states)} states, not {_short(count.text)}")
        if len(set(states)) != len(states) or not states:
            _refuse(count.line, f"{_short(name)} has no state, or two of one name")
        self.expect(";")
        return states

    def probability(self, found: BifNetwork, line: int) -> None:
        self.expect("(")
        own = self.name()
        parents: list[Token] = []
        if self.at("|"):
            self.next += 1
            parents = self.names(")")
        else:
            self.expect(")")
        for name in (own, *parents):
            if name.text not in found.states:
                hint = did_you_mean(name.text, found.states)
                _refuse(name.line, f"there is no variable {_short(name.text)} before this line{hint}")
        listed = tuple(parent.text for parent in parents)
        if own.text in found.tables or len({own.text, *listed}) != len(listed) + 1:
            _refuse(line, f"{_short(own.text)} has two tables, or a parent twice")
        found.tables[own.text] = self.table(listed, line)

    def table(self, parents: tuple[str, ...], line: int) -> BifTable:
        self.expect("{")
        table = BifTable(parents, line)
        whole: tuple[int, list[float]] | None = None
        default: tuple[int, list[float]] | None = None
        while not self.at("}"):
            token = self.take()
            if token.sign and token.text == "(":
                states = tuple(state.text for state in self.names(")"))
                if states in table.rows:
                    _refuse(token.line, "these states of the parents are given twice")
                table.rows[states] = token.line, self.numbers()
            elif token.text == "table" and whole is None:
                whole = token.line, self.numbers()
            elif token.text == "default" and default is None:
                default = token.line, self.numbers()
            elif token.text == "property":
                self.property()
            else:
                _refuse(token.line, f"one table, one default or states are expected, not {_short(token.text)}")
        self.expect("}")
        if whole is not None and (table.rows or default is not None):
            _refuse(line, "a table is given whole, or row by row, not both")
        return BifTable(parents, line, table.rows, whole, default)

    def numbers(self) -> list[float]:
        found: list[float] = []
        while not self.at(";"):
            token = self.take()
            if token.sign and token.text == ",":
                continue
            if token.sign or not NUMBER.fullmatch(token.text) or not 0 <= float(token.text) < math.inf:
                _refuse(token.line, f"a probability is expected, not {_short(token.text)}")
            found.append(float(token.text))
        self.expect(";")
        return found


def _tokens(text: str) -> list[Token]:
    """Return the tokens of a text, and an empty one at its end."""
    found: list[Token] = []
    line = 1
    place = 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            what = "a comment does not end" if text.startswith("/*", place) else "a quote does not end"
            _refuse(line, what)
        if match["sign"] is not None:
            found.append(Token(match["sign"], True, line))
        elif match["word"] is not None or match["quoted"]:
            found.append(Token(match["word"] or match["quoted"], False, line))
        line += match[0].count("\n")
        place = match.end()
    found.append(Token("", True, line))
    return found


def _short(text: str) -> str:
    if not text:
        return "the end of the text"
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
