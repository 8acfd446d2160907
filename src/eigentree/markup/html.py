"""Elements of HTML and SVG: whatever is no element already is escaped, so that no label can be taken for one."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "Html",
    "bar",
    "behind",
    "decimals",
    "element",
    "facts_list",
    "joined",
    "number",
    "percent",
    "scrolling",
    "table",
    "with_error",
]

CLOSED = frozenset({"circle", "line", "path", "rect", "meta", "br", "col"})
"""Elements that hold nothing."""


class Html(str):
    """Text that is HTML already; every other text is escaped when it becomes part of an element.

    Examples
    --------
    >>> element("p", "a < b ", element("b", "c"))
    '<p>a &lt; b <b>c</b></p>'
    """

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element.

    Parameters
    ----------
    name : str
    *children
        What it holds: elements, and whatever else as escaped text; None is left out.
    **attributes
        A ``_`` at the end is left out and others stand for a hyphen, as in ``class_`` and ``aria_label``. None and
        False are left out, True has no value.
    """
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(_plain(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in CLOSED:
        return Html(f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Html:
    """Return elements and texts one after another, the texts escaped."""
    return Html(
        "".join(each if isinstance(each, Html) else escape(_plain(each)) for each in children if each is not None)
    )


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits that matter, with a true minus sign.

    Examples
    --------
    >>> number(-12.3456), number(0.00012), number(1234.6), number(float("-inf"))
    ('−12.3', '0.00012', '1,235', '−∞')
    """
    if value != value:
        return "–"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 10 ** (digits - 1):
        shown = f"{size:,.0f}"
    elif size and size < 1e-4:
        shown = f"{size:.1e}"
    else:
        shown = f"{size:.{digits}g}"
    return f"−{shown}" if value < 0 and float(shown.replace(",", "")) else shown


def with_error(value: float, error: float) -> str:
    """Return a number and twice its standard error, with as many places behind the point as the error warrants.

    Examples
    --------
    >>> with_error(10.654, 0.09), with_error(-0.0312, 0.0004)
    ('10.7 ± 0.2', '−0.0312 ± 0.0008')
    """
    if not (math.isfinite(value) and math.isfinite(error)):
        return number(value)
    places = min(max(-math.floor(math.log10(2 * error)), 0), 6) if error > 0 else 3
    return f"{decimals(value, places)} ± {decimals(2 * error, places)}"


def decimals(value: float, places: int) -> str:
    """Return a number with so many places behind the point, with a true minus sign."""
    if not math.isfinite(value):
        return number(value)
    shown = f"{abs(value):,.{places}f}"
    return f"−{shown}" if value < 0 and shown.strip("0.,") else shown


def percent(share: float) -> str:
    """Return a share in per cent, with one digit behind the point."""
    return f"{100 * share:.1f}\u00a0%"


def bar(share: float, text: str, ends: tuple[float, float] | None = None) -> Html:
    """Return a text with a bar behind it that fills a share of its cell, and a line below for its interval."""
    if ends is None:
        return element("span", text, class_="p", style=f"--p:{100 * share:.0f}%")
    low, high = (f"{100 * end:.0f}" for end in ends)
    style = f"--p:{100 * share:.0f}%;--l:{low}%;--h:{high}%"
    return element("span", text, class_="p i", style=style, title=f"interval of 95 %: {low} to {high}")


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[object]], words: Sequence[int] = (0,)
) -> Html:
    """Return a table with a caption; the first cell of a row names it, and `words` are columns without numbers."""

    def cells(row: Sequence[object]) -> list[Html]:
        return [
            element(
                "td" if place else "th",
                cell,
                class_=None if place in words else "n",
                scope=None if place else "row",
            )
            for place, cell in enumerate(row)
        ]

    heads = [
        element("th", name, scope="col", class_=None if place in words else "n")
        for place, name in enumerate(header)
    ]
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *(element("tr", *cells(row)) for row in rows)),
    )
    return scrolling(made, caption)


def scrolling(inner: Html, label: str) -> Html:
    """Return what scrolls by itself where it is too wide, by the keyboard too."""
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=label)


def behind(summary: str, *inner: object) -> Html:
    """Return what is shown after a click on its summary."""
    return element("details", element("summary", summary), *inner)


def facts_list(facts: Iterable[tuple[str, object]]) -> Html:
    """Return names and what is known of them."""
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts]
    return element("dl", *pairs, class_="facts")


def _plain(value: object) -> str:
    if isinstance(value, float):
        # Places in pictures: a hundredth of a pixel is enough.
        rounded = round(value, 2)
        return f"{rounded:.2f}".rstrip("0").rstrip(".") if rounded else "0"
    return str(value)
