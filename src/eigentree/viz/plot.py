"""What `eigentree.plot` offers: figures of models on matplotlib's axes.

All of them raise `ParameterError` where there is nothing to draw, or nothing to draw on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.errors import GraphError, ParameterError, quoted, what_there_is
from eigentree.estimators.dependencies import edge_strengths
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.mixins.density_mixin import DensityMixin
from eigentree.estimators.mixins.hidden_sequence_mixin import HiddenSequenceMixin
from eigentree.estimators.mixins.iterative_mixin import IterativeMixin
from eigentree.estimators.mixins.latent_mixin import LatentMixin
from eigentree.estimators.mixins.sequence_mixin import require_plain, sequence_and_time
from eigentree.estimators.online_em import OnlineEMJunctionTree
from eigentree.estimators.profiles import Profile
from eigentree.estimators.profiles import profiles as profiles_of
from eigentree.estimators.spectral_hmm import SpectralHMM
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.graphs.structure_learning import mixed_tree
from eigentree.inference.networks.network import LatentNetwork
from eigentree.markup.charts import MOST_SPECTRA, learning_charts, spectra_chart
from eigentree.messages import renamed
from eigentree.uncertainty.estimates import Estimates
from eigentree.validation import whole_number
from eigentree.viz.diagrams import edge_ranks, graph_diagram, transition_diagram, tree_diagram
from eigentree.viz.interval_charts import interval_chart, interval_ends
from eigentree.viz.matplotlib_renderer import FONT, draw_chart, draw_diagram
from eigentree.viz.model_charts import multistart_chart, profile_chart, state_sequence_chart
from eigentree.viz.number_charts import density_chart, duration_chart

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "decoded",
    "densities",
    "durations",
    "graph",
    "intervals",
    "learning_curve",
    "multistart",
    "profiles",
    "spectra",
    "transitions",
    "tree",
]

MOST_COLUMNS = 10
"""Columns of a profile that are shown unless the user says how many."""

MOST_INTERVALS = 40
"""Estimates that are drawn unless the user says how many."""

MOST_SEQUENCES = 2_000
"""Sequences that are drawn, evenly taken from all."""


def graph(model: LatentGraph | LatentNetwork | DensityMixin, ax: Any = None) -> Any:
    """Return matplotlib's axes with the graph of a model: hidden variables in round boxes, columns in square ones.

    A tree grows from its middle to both sides. Where tables are known, edges are the wider the larger the mutual
    information of their ends (`eigentree.dependencies`). Arrows show directions where these matter: not in trees,
    which mean the same whichever way their edges point. The variable of a mixture of trees, the parent of all
    others, is left out, and the title says so.

    Parameters
    ----------
    model : LatentGraph, LatentNetwork, or a fitted estimator
    ax : matplotlib Axes, optional
        Where to draw, with names as small as its room needs; by default a figure of its own, as large as the graph
        needs.
    """
    whole = _graph_of(model)
    network = model if isinstance(model, LatentNetwork) else None
    if isinstance(model, LatentMixin):
        network = model.network_
    shown, which = mixed_tree(whole)
    mixed = ""
    if which is not None:
        mixed = f"; a mixture of {whole.states[which]} such trees ({which!r}, the parent of all, is left out)"
    return draw_diagram(graph_diagram(shown, {} if network is None else edge_strengths(network), mixed), ax)


def tree(model: LatentGraph | JunctionTree | LatentNetwork | DensityMixin, ax: Any = None) -> Any:
    """Return matplotlib's axes with the junction tree of a model: cliques, separators, and where the columns hang.

    Cliques are round boxes with the names of their variables, columns square ones at the ends. On each edge stands
    its separator with the number of its states; of a spectral model with the rank that was learned, and the edge is
    dashed where noise could explain its smallest singular value. Cliques that were split because many meet there
    are drawn as one.

    Parameters
    ----------
    model : LatentGraph, JunctionTree, LatentNetwork, or a fitted estimator
    ax : matplotlib Axes, optional
        Where to draw, with names as small as its room needs; by default a figure of its own, as large as the tree
        needs.
    """
    found = model if isinstance(model, JunctionTree) else JunctionTree.of(_graph_of(model))
    return draw_diagram(tree_diagram(found, edge_ranks(model)), ax)


def spectra(model: SpectralJunctionTree | SpectralHMM, most: int = MOST_SPECTRA, ax: Any = None) -> Any:
    """Return matplotlib's axes with the singular values of each separator of a spectral model.

    One row for each separator, those first whose rank is nearest to the noise. Dots are the singular values that
    were kept, a ring is the first that was not, a bar is how large singular values of pure noise would be. A dot
    left of the bar does not differ from noise.

    Parameters
    ----------
    model : a fitted SpectralJunctionTree or SpectralHMM
    most : int
        How many separators are shown at most; a sentence below says how many were left out.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    if not isinstance(model, SpectralJunctionTree | SpectralHMM):
        raise ParameterError(
            f"a fitted SpectralJunctionTree or SpectralHMM has singular values to draw, not {quoted(model)}"
        )
    return draw_chart(spectra_chart(model.report_.spectra, whole_number("most", most)), ax)


def profiles(
    model: LatentNetwork | LatentMixin | HiddenSequenceMixin | Profile,
    hidden: str | None = None,
    most: int = MOST_COLUMNS,
    ax: Any = None,
    *,
    intervals: Estimates | bool = False,
    level: float = 0.95,
) -> Any:
    """Return matplotlib's axes with the profiles of the states of a hidden variable: P(label | state).

    One column of the figure for each state, with its share below, and a row for each label, of a number for its
    mean; the columns of the data stand in the order of their mutual information with the variable
    (`eigentree.profiles`). Lines below the numbers are their intervals.

    Parameters
    ----------
    model : LatentNetwork, a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM, or one of `eigentree.profiles`
    hidden : str, optional
        The hidden variable; by default the one with the largest sum of mutual information.
    most : int
        How many columns of the data are shown at most; a sentence below says how many were left out.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    intervals : bool, Estimates or Bootstrap
        Whether intervals are drawn, or what ``model.estimates(X)`` or `eigentree.bootstrap` returned.
    level : float
        The share of samples whose interval covers the truth.
    """
    profile, others = _profile_of(model, hidden)
    found = None if intervals is False else _estimates_of(model if intervals is True else intervals)
    if found is not None and tuple(found.header) != ("table", "state", "given"):
        raise ParameterError("intervals of a profile are those of parameters, such as model.estimates()")
    ends = interval_ends(found, level)
    return draw_chart(profile_chart(profile, whole_number("most", most), others, ends, level), ax)


def densities(
    model: LatentNetwork | LatentMixin | HiddenSequenceMixin | Profile,
    column: str | None = None,
    hidden: str | None = None,
    ax: Any = None,
) -> Any:
    """Return matplotlib's axes with the density of a number in each state of a hidden variable, times its share.

    The dashed line is the density among all rows, the sum of the others.

    Parameters
    ----------
    model : LatentNetwork, a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM, or one of `eigentree.profiles`
    column : str, optional
        A column of numbers; by default the one with the largest mutual information with the hidden variable.
    hidden : str, optional
        The hidden variable; by default the one with the largest sum of mutual information.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    profile, _ = _profile_of(model, hidden)
    names = [name for name in profile.columns if name in profile.numbers]
    if not names:
        raise ParameterError("the model has no columns of numbers, and so no densities to draw")
    if column is not None and column not in names:
        raise GraphError(f"there is no number {quoted(column)}{what_there_is(column, names)}")
    chart = density_chart(profile, names[0] if column is None else column)
    bigger: dict[str, Any] = {"title": f"density of {chart.title}", "size": (330.0, 180.0)}
    return draw_chart(replace(chart, **bigger, y=chart.y._replace(label="density times share")), ax)


def intervals(
    found: Estimates | IterativeMixin, level: float = 0.95, most: int = MOST_INTERVALS, ax: Any = None
) -> Any:
    """Return matplotlib's axes with estimates as dots on their intervals, one below the other.

    Parameters
    ----------
    found : Estimates, or a fitted EMJunctionTree, LatentClassModel or EMHMM
        What ``model.estimates()`` and other functions return, or a ``part`` of it; of an estimator all parameters
        are drawn.
    level : float
        The share of samples whose interval covers the truth.
    most : int
        How many are drawn at most; the title says how many were left out.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    return draw_chart(interval_chart(_estimates_of(found), whole_number("most", most), level), ax)


def _estimates_of(found: Any) -> Estimates:
    if isinstance(found, IterativeMixin):
        found = found.estimates()
    if not isinstance(found, Estimates):
        raise ParameterError(
            f"estimates are drawn, such as model.estimates(), or the coefficients of a regression, not "
            f"{quoted(found)}"
        )
    return found


def _profile_of(model: Any, hidden: str | None) -> tuple[Profile, int]:
    """Return the profile to draw, and how many others there are."""
    if isinstance(model, Profile):
        found = [model]
    else:
        found = list(profiles_of(model, None if hidden is None else [hidden]).values())
    if not found:
        raise ParameterError("the model has no hidden variables, and so no profiles to draw")
    return max(found, key=lambda each: sum(each.nats)), len(found) - 1


def learning_curve(model: EMJunctionTree | OnlineEMJunctionTree | EMHMM, ax: Any = None) -> Any:
    """Return matplotlib's axes with the objective of a fit by EM after each iteration (`history_`).

    Where validation rows chose when to stop, their mean log probability is drawn on an axis of its own at the
    right, with a line where it was highest.

    Parameters
    ----------
    model : a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    fitted = _fitted_by_em(model)
    step = "pass" if isinstance(model, OnlineEMJunctionTree) else "iteration"
    unit = "step" if isinstance(model, EMHMM) else "row"
    count = len(fitted.history_) - (step == "iteration")
    ended = "converged" if fitted.converged_ else "ended before it converged"
    more = "" if count == 1 else "es" if step == "pass" else "s"
    charts = learning_charts(fitted.history_, getattr(fitted, "validation_history_", ()), unit, step)
    ax = draw_chart(replace(charts[0], title=f"{count} {step}{more}; {ended}"), ax)
    for chart in charts[1:]:
        right = ax.twinx()
        draw_chart(replace(chart, title="", y=chart.y._replace(grid=False)), right)
        right.get_legend().remove()
        ax.legend(handles=[ax.lines[0], right.lines[0]], fontsize=FONT, loc="lower right", frameon=False)
    return ax


def multistart(model: EMJunctionTree | EMHMM, ax: Any = None) -> Any:
    """Return matplotlib's axes with the multi-start before a fit by EM (`start_`), rung by rung.

    Each mark is a candidate, its shape the kind of its start, its distance from the best of its rung the difference
    of their objectives per row.

    Parameters
    ----------
    model : a fitted EMJunctionTree or EMHMM
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    start = getattr(_fitted_by_em(model), "start_", None)
    if start is None or not start.rungs:
        raise ParameterError(
            "this fit had no candidates to choose from; init='multistart' has several, where there are enough rows"
        )
    return draw_chart(multistart_chart(start), ax)


def race(model: EMJunctionTree | EMHMM, ax: Any = None) -> Any:
    """Return what `multistart` returns: its name until 0.2.0."""
    renamed("et.plot.race", "et.plot.multistart")
    return multistart(model, ax)


def transitions(model: HiddenSequenceMixin, chain: str | None = None, ax: Any = None) -> Any:
    """Return matplotlib's axes with where the hidden states of a model of sequences lead.

    In each state stands how probable it is to stay; arrows are the wider the more probable the transition. Those
    far less probable than the most probable one are left out.

    Parameters
    ----------
    model : a fitted EMHMM of order 1
    chain : str, optional
        Of a factorial HMM, which chain; the first unless given.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    if not isinstance(model, HiddenSequenceMixin):
        raise ParameterError(f"a fitted EMHMM has transitions to draw, not {quoted(model)}")
    profile = next(iter(profiles_of(model, None if chain is None else [chain]).values()))
    return draw_diagram(transition_diagram(profile), ax)


def durations(model: HiddenSequenceMixin, ax: Any = None) -> Any:
    """Return matplotlib's axes with the distribution of how many steps each state lasts.

    Parameters
    ----------
    model : an EMHMM that was fitted with durations
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    if not isinstance(model, HiddenSequenceMixin):
        raise ParameterError(f"a fitted EMHMM has durations to draw, not {quoted(model)}")
    (profile, *_) = profiles_of(model).values()
    if profile.durations is None:
        raise ParameterError("the model was fitted without durations; give HMM(durations='explicit') or a family")
    return draw_chart(duration_chart(profile), ax)


def decoded(
    model: HiddenSequenceMixin,
    X: ArrayLike | Any,
    lengths: ArrayLike | None = None,
    chain: str | None = None,
    ax: Any = None,
) -> Any:
    """Return matplotlib's axes with the most probable hidden states of sequences, one row each.

    Sequences with similar states stand together.

    Parameters
    ----------
    model : a fitted EMHMM
    X : sequences, as for ``model.decode``
    lengths : array-like of int, shape (sequences,), optional
    chain : str, optional
        Of a factorial HMM, which chain; the first unless given.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.
    """
    if not isinstance(model, HiddenSequenceMixin):
        raise ParameterError(f"a fitted EMHMM decodes states to draw, not {quoted(model)}")
    require_plain(model, "decoded states")
    sequences = Sequences.of(X, model.columns_.reading(model.handle_unknown), lengths, *sequence_and_time(model, X))
    return draw_chart(state_sequence_chart(model.model_, sequences, chain, MOST_SEQUENCES), ax)


def _fitted_by_em(model: Any) -> Any:
    """Return the model, once it was fitted by EM; else raise."""
    if not isinstance(model, EMJunctionTree | OnlineEMJunctionTree | EMHMM):
        raise ParameterError(
            f"a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM has a history to draw, not {quoted(model)}"
        )
    # Where it was not fitted, this says so.
    _ = model.tables_
    return model


def _graph_of(model: Any) -> LatentGraph:
    """Return the graph of a model; else raise."""
    if isinstance(model, LatentGraph | LatentNetwork):
        return model if isinstance(model, LatentGraph) else model.graph
    if isinstance(model, DensityMixin):
        return model.graph_
    raise ParameterError(
        f"a LatentGraph, a LatentNetwork or a fitted estimator has a graph to draw, not {quoted(model)}"
    )


def __dir__() -> list[str]:
    return sorted(__all__)
