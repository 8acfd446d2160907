"""`FitReport`: what the reports of all fits share, as text and in notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from eigentree.markup.figures import note_list
from eigentree.markup.html import facts_list
from eigentree.markup.style import fragment
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.markup.html import Html

__all__ = ["FitReport"]


class FitReport(ABC):
    """The report of a fit: facts by name, warnings and figures."""

    title: ClassVar[str]

    @abstractmethod
    def facts(self) -> list[tuple[str, str]]:
        """Return what is known of the fit by name, in words."""

    @property
    @abstractmethod
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the fit."""

    def figures(self) -> Iterable[Html]:
        """Return what notebooks show below."""
        return ()

    def warn(self) -> None:
        """Warn of what a user should know before trusting the fit."""
        for sentence in self.warnings:
            notice(sentence)

    def __str__(self) -> str:
        facts = self.facts()
        width = max(len(name) for name, _ in facts)
        lines = [f"{name:<{width}}  {value}" for name, value in facts]
        return "\n".join([*lines, *(f"! {sentence}" for sentence in self.warnings)])

    def _repr_html_(self) -> str:
        return fragment(self.title, facts_list(self.facts()), note_list(self.warnings), *self.figures())
