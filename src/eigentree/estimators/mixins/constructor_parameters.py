"""The base of all estimators: parameters, fits that are all or nothing, and what scikit-learn needs to know.

scikit-learn itself is imported where it is used: that alone takes a second.
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, dataclass_transform

import numpy as np

from eigentree.data.tables.state_rules import check_rules
from eigentree.em.mixed.emission_choice import column_kinds
from eigentree.errors import ParameterError, did_you_mean, quoted
from eigentree.graphs.templates import Template
from eigentree.messages import refuse_foreign_names, renamed, renamed_arguments, signs_of_life
from eigentree.validation import ARITHMETIC, flag, plain_number

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.state_rules import UnknownRule

__all__ = [
    "Parameters",
    "cloned",
    "current_names",
    "estimator_class",
    "learns",
    "with_attributes",
]

RENAMED = {"restarts": "n_init", "unknown": "handle_unknown"}
"""Arguments of estimators that were called otherwise up to 0.2.0, wherever a constructor has the new name."""

Arguments = ParamSpec("Arguments")
P = TypeVar("P", bound="Parameters")
T = TypeVar("T")


class Parameters:
    """An estimator: constructor arguments are parameters, and attributes that end with ``_`` are fitted."""

    _estimator_type: ClassVar[str | None] = "density_estimator"

    columns_: Columns
    handle_unknown: UnknownRule

    @property
    def _columns(self) -> Columns:
        """The columns that were fitted, with the rule for unknown labels, which may have been set since."""
        self._require_fit()
        check_rules(self.handle_unknown)
        return self.columns_.reading(self.handle_unknown)

    @property
    def n_features_in_(self) -> int:
        """How many columns the data have."""
        return len(self._columns.names)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns, if the estimator was fitted on a frame that names them."""
        if not self._columns.named:
            raise AttributeError("feature_names_in_: the estimator was fitted on columns without names")
        return np.array(self._columns.names, object)

    @property
    def _column_kinds(self) -> dict[str, str]:
        """The kinds of columns that the given emissions need; none where there are no emissions to give."""
        return column_kinds(getattr(self, "emissions", "auto"))

    @classmethod
    def _signature(cls) -> dict[str, Parameter]:
        return {name: each for name, each in signature(cls.__init__).parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; if `deep`, also those of each that has some, as ``outer__inner``."""
        flag("deep", deep)
        found: dict[str, Any] = {}
        for name in sorted(self._signature()):
            value = getattr(self, name)
            found[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update((f"{name}__{inner}", kept) for inner, kept in value.get_params().items())
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Return the estimator with some parameters set; ``outer__inner`` sets one of a parameter's own.

        A template never changes: its place is taken by another one, so nobody who holds the first notices.

        Raises
        ------
        ParameterError
            When there is no such parameter; nothing is set then.
        """
        known = self._signature()
        refuse_foreign_names(parameters, known)
        plain: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for key, value in current_names(type(self), parameters, warn=True).items():
            name, _, inner = key.partition("__")
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise ParameterError(f"{type(self).__name__} has no parameter {name!r}{hint}")
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                plain[name] = value
        for name, settings in nested.items():
            owner = plain.get(name, getattr(self, name))
            if isinstance(owner, Template):
                plain[name] = owner.changed(**settings)
            elif hasattr(owner, "set_params") and not isinstance(owner, type):
                owner.set_params(**settings)
            else:
                raise ParameterError(f"{name}={quoted(owner)} has no parameter {next(iter(settings))!r}")
        for name, value in plain.items():
            setattr(self, name, value)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator, fitted or not, into a file (safetensors), which `eigentree.load` reads.

        A `random_state` that is a Generator is saved as None, and a graph of another library as a `LatentGraph`.

        Parameters
        ----------
        path : str or PathLike
            An old file there is replaced once the new one is complete.

        Raises
        ------
        FileError
            When the file cannot be written, or cannot hold a parameter.
        """
        from eigentree.estimators.model_files import save_estimator

        save_estimator(self, path)

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, each in self._signature().items()
            if not _same(getattr(self, name), each.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(allow_nan=True, categorical=True, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") and not name.startswith("_") for name in vars(self))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise `NotFittedError` where a fitted attribute is missing since nothing was fitted."""
            if name.endswith("_") and not name.startswith("_"):
                self._require_fit()
            # The error of the attribute itself, which a property may have worded.
            return object.__getattribute__(self, name)

    def _require_fit(self) -> None:
        """Raise scikit-learn's `NotFittedError` unless the estimator was fitted."""
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                f"this {type(self).__name__} instance is not fitted yet; call fit with some rows first"
            )

    def _become(self, fitted: Mapping[str, Any]) -> Self:
        """Return the estimator with these fitted attributes and no others, put in place in one step."""
        kept = {
            name: value for name, value in vars(self).items() if not name.endswith("_") or name.startswith("__")
        }
        self.__dict__ = kept | dict(fitted)
        return self


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def estimator_class(cls: type[P]) -> type[P]:
    """Return a class whose constructor takes and keeps its annotated attributes, by their old names too."""
    dataclass(eq=False, repr=False)(cls)
    known = cls._signature()
    old_names = {old: new for old, new in RENAMED.items() if new in known}
    cls.__init__ = renamed_arguments(**old_names)(cls.__init__)  # type: ignore[method-assign]
    return cls


def current_names(cls: type[Parameters], parameters: Mapping[str, Any], warn: bool = False) -> dict[str, Any]:
    """Return parameters of a class by the names that they have now, where some are given by their old ones."""
    known = cls._signature()
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        new = RENAMED.get(name, name)
        if name not in known and new in known:
            if warn:
                renamed(f"the parameter {name}", new)
            found[new] = value
        else:
            found[name] = value
    return found


def cloned(estimator: P, **settings: Any) -> P:
    """Return an unfitted estimator with the same parameters, but for some."""
    return type(estimator)(**(estimator.get_params(deep=False) | settings))


def with_attributes(estimator: P, **fitted: Any) -> P:
    """Return a fitted estimator with some of its fitted attributes replaced; the given one stays as it is."""
    other = copy(estimator)
    other._become(vars(estimator) | fitted)
    return other


def learns(method: Callable[Concatenate[P, Arguments], T]) -> Callable[Concatenate[P, Arguments], T]:
    """Return a method that fits all or nothing: where it ends early, by whatever, the estimator is as before.

    Meanwhile numbers among its parameters are Python's own: the arithmetic of small types of numpy's overflows.
    """

    @functools.wraps(method)
    def fit(self: P, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> T:
        before = self.__dict__
        plain = {name: plain_number(before[name]) for name in self._signature() if name in before}
        plain = {name: value for name, value in plain.items() if value is not before[name]}
        if plain:
            self.__dict__ = before | plain
        verbose = self.__dict__.get("verbose")
        hint = "; verbose=1 shows how far it is" if isinstance(verbose, int) else ""
        shows_progress = isinstance(verbose, int) and verbose > 0
        title = f"{type(self).__name__}.{method.__name__}"
        try:
            with nullcontext() if shows_progress else signs_of_life(title, hint), np.errstate(**ARITHMETIC):
                found = method(self, *args, **kwargs)
            # One that was set meanwhile is as it was set.
            self.__dict__ |= {name: before[name] for name in plain if self.__dict__[name] is plain[name]}
            return found
        except BaseException:
            self.__dict__ = before
            raise

    return fit


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, np.ndarray):
        return False
    return value is default or (type(value) is type(default) and bool(value == default))
