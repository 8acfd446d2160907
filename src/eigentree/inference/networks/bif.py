"""Bayesian networks as text in the Interchange Format (BIF), which pgmpy, pyagrum, bnlearn and others read."""

from __future__ import annotations

import math
import re
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from eigentree.errors import FileError, NetworkError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Floats

__all__ = ["BifNetwork", "bif_text"]

TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | "(?P<quoted>[^"\n]*)" | (?P<sign>[{}()\[\];,|])
    | (?P<word>(?:(?!//|/\*)[^\s{}()\[\];,|"])+)""",
    re.DOTALL | re.VERBOSE,
)

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

BARE = re.compile(r"""(?:(?!//|/\*)[^\s{}()\[\];,|"])+""")
"""Names that need no quotes."""

ROUNDED = 0.01
"""How far from 1 the sum of a distribution may be: numbers are often rounded, and are then divided by it."""

EXACT = 1e-7
"""How far from 1 it may be and the numbers are left as they are."""


class Token(NamedTuple):
    """A sign, or a word, and the line that it stands in."""

    text: str
    sign: bool
    line: int


class BifNetwork:
    """A network as a text gives it: the names of the states, and the parents, of each variable.

    A text that describes none raises `FileError`, which names the line.
    """

    def __init__(self, text: str) -> None:
        self.states: dict[str, tuple[str, ...]] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        # Where each variable is declared, and where each table begins.
        self._lines: dict[str, int] = {}
        self._table_lines: dict[str, int] = {}
        # Line and numbers of each part of a table: of some states of the parents, of "table", all at once with the
        # variable's own states slowest, or of "default", all other states of the parents.
        self._entries: dict[str, dict[tuple[str, ...] | str, tuple[int, list[float]]]] = {}
        self._tokens = _tokens(text)
        self._next = 0
        while self._token.text:
            token = self._take()
            if token.text == "network":
                self._words()
                self._block_of_properties()
            elif token.text == "variable":
                self._read_variable(token.line)
            elif token.text == "probability":
                self._read_probability(token.line)
            else:
                _refuse(token.line, f"network, variable or probability is expected, not {_short(token.text)}")
        if not self.states:
            _refuse(self._token.line, "there is no variable; this is no BIF text")
        for name, line in self._lines.items():
            if name not in self.parents:
                _refuse(line, f"{name!r} has no probabilities")

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The edges, those of one child in the order of its parents."""
        return [(parent, name) for name in self.states for parent in self.parents[name]]

    def array(self, name: str) -> Floats:
        """Return the table of a variable, axes (parents…, name), once no number is missing or too much."""
        parents, entries = self.parents[name], dict(self._entries[name])
        shape = [len(self.states[each]) for each in (*parents, name)]
        if "table" in entries:
            line, numbers = entries["table"]
            if len(numbers) != math.prod(shape):
                _refuse(line, f"the table of {name!r} has {math.prod(shape)} numbers, but {len(numbers)} are given")
            array = np.moveaxis(np.array(numbers).reshape([shape[-1], *shape[:-1]]), 0, -1)
            return _divided(array, line, name)
        places = [{state: k for k, state in enumerate(self.states[parent])} for parent in parents]
        array = np.full(shape, np.nan)
        if "default" in entries:
            array[...] = self._row(name, *entries.pop("default"))
        for states, (line, numbers) in entries.items():
            if len(states) != len(places):
                _refuse(line, f"{name!r} has {len(places)} parents, but {len(states)} states are given")
            for state, place, parent in zip(states, places, parents, strict=True):
                if state not in place:
                    _refuse(line, f"{parent!r} has no state {state!r}{did_you_mean(state, place)}")
            where = tuple(place[state] for state, place in zip(states, places, strict=True))
            array[where] = self._row(name, line, numbers)
        if np.isnan(array).any():
            _refuse(self._table_lines[name], f"the table of {name!r} lacks a row for some states of its parents")
        return _divided(array, self._table_lines[name], name)

    def _row(self, name: str, line: int, numbers: list[float]) -> list[float]:
        count = len(self.states[name])
        if len(numbers) != count:
            _refuse(line, f"{name!r} has {count} states, but {len(numbers)} numbers are given")
        return numbers

    @property
    def _token(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._next]

    def _take(self) -> Token:
        """Return the next token and go on."""
        token = self._token
        if not token.text:
            _refuse(token.line, "the text ends in the middle of a block")
        self._next += 1
        return token

    def _expect(self, sign: str) -> None:
        """Go past a sign; refuse anything else."""
        token = self._take()
        if not token.sign or token.text != sign:
            _refuse(token.line, f"{sign!r} is expected, not {_short(token.text)}")

    def _at(self, sign: str) -> bool:
        """Return whether a sign comes next."""
        return self._token.sign and self._token.text == sign

    def _words(self) -> list[Token]:
        """Return the words that come next."""
        start = self._next
        while self._token.text and not self._token.sign:
            self._next += 1
        return self._tokens[start : self._next]

    def _name(self) -> Token:
        """Return the words that come next as one name."""
        words = self._words()
        if not words:
            _refuse(self._token.line, f"a name is expected, not {_short(self._token.text)}")
        return Token(" ".join(word.text for word in words), False, words[0].line)

    def _names(self, end: str) -> list[Token]:
        """Return names up to a sign, between commas; without any comma, each word is one."""
        found = [self._words()]
        while self._at(","):
            self._next += 1
            found.append(self._words())
        line = self._token.line
        self._expect(end)
        if len(found) == 1:
            return found[0]
        if not all(found):
            _refuse(line, "a name is missing between commas")
        return [Token(" ".join(word.text for word in words), False, words[0].line) for words in found]

    def _property(self) -> None:
        """Go past what a property says, to its end."""
        while not self._at(";"):
            self._take()
        self._expect(";")

    def _block_of_properties(self) -> None:
        self._expect("{")
        while not self._at("}"):
            token = self._take()
            if token.text != "property":
                _refuse(token.line, f"a property is expected, not {_short(token.text)}")
            self._property()
        self._expect("}")

    def _read_variable(self, line: int) -> None:
        name = self._name().text
        if name in self.states:
            _refuse(line, f"the variable {_short(name)} is declared twice")
        self._expect("{")
        while not self._at("}"):
            token = self._take()
            if token.text == "property":
                self._property()
            elif token.text == "type" and name not in self.states:
                self.states[name] = self._state_names(name)
                self._lines[name] = line
            else:
                _refuse(token.line, f"one type, or a property, is expected, not {_short(token.text)}")
        self._expect("}")
        if name not in self.states:
            _refuse(line, f"the variable {_short(name)} has no type")

    def _state_names(self, name: str) -> tuple[str, ...]:
        form = self._take()
        if form.text != "discrete":
            _refuse(form.line, f"variables are discrete, but {_short(name)} is {_short(form.text)}")
        self._expect("[")
        count = self._take()
        self._expect("]")
        self._expect("{")
        states = tuple(state.text for state in self._names("}"))
        if not re.fullmatch(r"[0-9]{1,9}", count.text) or int(count.text) != len(states):
            _refuse(count.line, f"{_short(name)} has {len(states)} states, not {_short(count.text)}")
        if len(set(states)) != len(states) or not states:
            _refuse(count.line, f"{_short(name)} has no state, or two of one name")
        self._expect(";")
        return states

    def _read_probability(self, line: int) -> None:
        self._expect("(")
        own = self._name()
        parents: list[Token] = []
        if self._at("|"):
            self._next += 1
            parents = self._names(")")
        else:
            self._expect(")")
        for name in (own, *parents):
            if name.text not in self.states:
                hint = did_you_mean(name.text, self.states)
                _refuse(name.line, f"there is no variable {_short(name.text)} before this line{hint}")
        listed = tuple(parent.text for parent in parents)
        if own.text in self.parents or len({own.text, *listed}) != len(listed) + 1:
            _refuse(line, f"{_short(own.text)} has two tables, or a parent twice")
        self.parents[own.text], self._table_lines[own.text] = listed, line
        self._entries[own.text] = self._read_table(line)

    def _read_table(self, line: int) -> dict[tuple[str, ...] | str, tuple[int, list[float]]]:
        self._expect("{")
        entries: dict[tuple[str, ...] | str, tuple[int, list[float]]] = {}
        while not self._at("}"):
            token = self._take()
            if token.sign and token.text == "(":
                states = tuple(state.text for state in self._names(")"))
                if states in entries:
                    _refuse(token.line, "these states of the parents are given twice")
                entries[states] = token.line, self._numbers()
            elif token.text in ("table", "default") and token.text not in entries:
                entries[token.text] = token.line, self._numbers()
            elif token.text == "property":
                self._property()
            else:
                _refuse(token.line, f"one table, one default or states are expected, not {_short(token.text)}")
        self._expect("}")
        if "table" in entries and len(entries) > 1:
            _refuse(line, "a table is given whole, or row by row, not both")
        return entries

    def _numbers(self) -> list[float]:
        found: list[float] = []
        while not self._at(";"):
            token = self._take()
            if token.sign and token.text == ",":
                continue
            if token.sign or not NUMBER.fullmatch(token.text) or not 0 <= float(token.text) < math.inf:
                _refuse(token.line, f"a probability is expected, not {_short(token.text)}")
            found.append(float(token.text))
        self._expect(";")
        return found


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
    """Return a network as text; numbers are written so that they are read back bit-identical."""
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
