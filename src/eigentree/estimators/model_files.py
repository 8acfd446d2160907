"""Estimators in files: parameters, what was fitted, and `load`, which reads whatever eigentree has saved."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eigentree.counting.statistics import check_counts
from eigentree.counting.stored_pairs import KIND as PAIRS
from eigentree.counting.stored_pairs import read_pairs
from eigentree.counting.stored_statistics import KIND as STATISTICS
from eigentree.counting.stored_statistics import read_statistics, statistics_content
from eigentree.data.stored_columns import checked_columns, columns_content, columns_of
from eigentree.em.stored_learning import (
    learner_content,
    outcome_content,
    read_learner,
    read_outcome,
    read_search,
    search_content,
)
from eigentree.errors import FileError
from eigentree.estimators.classification.class_column import ClassColumn
from eigentree.estimators.classification.classifier import JunctionTreeClassifier
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.imputer import OUTPUTS, JunctionTreeImputer
from eigentree.estimators.latent_class import LatentClassModel
from eigentree.estimators.mixins.constructor_parameters import Parameters, current_names
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin
from eigentree.estimators.online_em import OnlineEMJunctionTree
from eigentree.estimators.spectral_hmm import SpectralHMM
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
from eigentree.estimators.stored_labels import labels_content, read_labels
from eigentree.estimators.stored_sequences import (
    hmm_content,
    listed,
    read_hmm,
    read_spectral_hmm,
    spectral_hmm_content,
)
from eigentree.graphs import zoo
from eigentree.graphs.coercion import as_structure, require_structure
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import open_template
from eigentree.graphs.templates import Template
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.stored_network import KIND as NETWORK
from eigentree.inference.stored_network import network_content, read_network
from eigentree.io.documents import Section, UnknownEntryError, plain
from eigentree.io.stores import Writer, opened_store
from eigentree.planning.stored_plan import plan_content, read_plan
from eigentree.spectral.learn.stored_fit import model_content, read_model, read_report, report_content

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from eigentree.io.stores import Reader

    Estimator: TypeAlias = (
        SpectralJunctionTree
        | EMJunctionTree
        | LatentClassModel
        | OnlineEMJunctionTree
        | EMHMM
        | SpectralHMM
        | JunctionTreeClassifier
        | JunctionTreeImputer
    )

__all__ = ["load", "save_estimator"]

ESTIMATORS: Mapping[str, type[Estimator]] = {
    each.__name__: each
    for each in (
        SpectralJunctionTree,
        EMJunctionTree,
        LatentClassModel,
        OnlineEMJunctionTree,
        EMHMM,
        SpectralHMM,
        JunctionTreeClassifier,
        JunctionTreeImputer,
    )
}

TEMPLATES: Mapping[str, type[Template]] = {
    name: each
    for name in zoo.__all__
    if isinstance(each := getattr(zoo, name), type) and issubclass(each, Template) and each is not Template
}

SEQUENCE_TABLES = ("init", "start", "transitions")
"""Parameters that may be arrays, and come back as lists."""

SOURCES_OF_CHANCE = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    np.random.SeedSequence,
)


def save_estimator(estimator: Parameters, path: str | os.PathLike[str]) -> None:
    """Write an estimator into a file, whole or not at all."""
    writer = Writer()
    writer.save(path, _kind(estimator), _content(writer, estimator))


def load(path: str | os.PathLike[str]) -> Any:
    """Return what was saved: an estimator, a `LatentNetwork`, `Statistics` or `PairCounts`.

    It is what it was: parameters, fitted attributes and answers, to the last bit; `partial_fit` goes on where it
    was. Only a `random_state` that was a Generator is None now. Nothing in the file is executed, and it is read on
    any machine and by any later version.

    Parameters
    ----------
    path : str or PathLike

    Raises
    ------
    FileError
        When there is no such file, it is none of eigentree's, is damaged or tampered with, or was written by a
        newer version.

    Examples
    --------
    >>> import eigentree as et, tempfile, os
    >>> network = et.LatentNetwork.random(et.zoo.hmm(5, hidden_states=2, observed_states=3), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     network.save(os.path.join(folder, "hmm.eigentree"))
    ...     again = et.load(os.path.join(folder, "hmm.eigentree"))
    >>> bool((again.tables["x0"] == network.tables["x0"]).all())
    True
    """
    with opened_store(path) as reader:
        if reader.kind == STATISTICS:
            return read_statistics(reader, reader.content)
        if reader.kind == PAIRS:
            return read_pairs(reader, reader.content)
        if reader.kind == NETWORK:
            return read_network(reader, reader.content)
        return _read(reader, reader.kind, reader.content)


def _kind(estimator: Any) -> str:
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise FileError(f"a file holds eigentree's own estimators, not a {name}")
    return name


def _content(writer: Writer, estimator: Any, graph: LatentGraph | None = None) -> dict[str, Any]:
    """Return the document of an estimator, after putting its arrays into the file.

    What the graph of another library stands for is the graph that was fitted, by this estimator or by those for
    which it is the pattern.
    """
    known = estimator.__sklearn_is_fitted__()
    if known and not isinstance(own := _models(estimator)[0], SequenceMixin):
        graph = own.graph_
    parameters = {
        name: _parameter_content(writer.within(name), name, value, graph)
        for name, value in estimator.get_params(deep=False).items()
    }
    content: dict[str, Any] = {"parameters": parameters}
    content["fitted"] = _fitted_content(writer, estimator) if known else None
    if isinstance(estimator, JunctionTreeImputer) and estimator.output is not None:
        content["output"] = estimator.output
    return content


def _models(estimator: Any) -> list[Any]:
    """Return the fitted models that an estimator holds: its own, or itself."""
    if "estimators_" in vars(estimator):
        return list(estimator.estimators_)
    return [vars(estimator).get("estimator_", estimator)]


def _read(reader: Reader, kind: str, content: Any) -> Estimator:
    if kind not in ESTIMATORS:
        raise UnknownEntryError(f"it holds a {kind[:60]!r}, which is not known")
    made = ESTIMATORS[kind]
    entry = Section(content, kind, ("parameters", "fitted"), ("output",) if made is JunctionTreeImputer else ())
    known = signature(made).parameters
    required = [name for name, each in known.items() if each.default is Parameter.empty]
    # A parameter that a later version has added has its default there.
    stored = entry["parameters"]
    stored = current_names(made, stored) if isinstance(stored, dict) else stored
    given = Section(stored, f"{kind}: parameters", required, tuple(known))
    parameters = {name: _read_parameter(reader.within(name), name, given[name]) for name in given.content}
    estimator = made(**parameters)
    if isinstance(estimator, JunctionTreeImputer) and entry.has("output"):
        estimator.set_output(transform=_read_output(entry))
    if entry.has("fitted"):
        inner = getattr(estimator, "estimator", None)
        if inner is not None and type(inner).__name__ not in ESTIMATORS:
            raise FileError("a classifier or imputer that was fitted has an estimator, or the default one")
        vars(estimator).update(_read_fitted(reader, kind, entry["fitted"]))
    return estimator


def _read_output(entry: Section) -> Any:
    output = entry.text("output")
    if output not in OUTPUTS:
        raise UnknownEntryError(f"{entry.at('output')} is {' or '.join(OUTPUTS)}, not {output[:60]!r}")
    return output


def _parameter_content(writer: Writer, name: str, value: Any, graph: LatentGraph | None) -> dict[str, Any]:
    if isinstance(value, LatentGraph):
        return {"graph": writer.graph(value)}
    if isinstance(value, LatentNetwork):
        return {"network": network_content(writer, value)}
    if isinstance(value, Template):
        return {"template": _template_content(name, value)}
    if name == "structure":
        require_structure(value)
    if name == "structure" and open_template(value) is None:
        return {"graph": writer.graph(graph or as_structure(value))}
    if type(value).__name__ in ESTIMATORS:
        return {"estimator": {"kind": _kind(value), "content": _content(writer, value, graph)}}
    if isinstance(value, SOURCES_OF_CHANCE):
        return {"value": None}
    if name in SEQUENCE_TABLES:
        value = listed(value)
    return {"value": plain(value, f"the parameter {name}")}


def _read_parameter(reader: Reader, name: str, content: Any) -> Any:
    entry = Section(content, name, (), ("graph", "network", "template", "estimator", "value"))
    if len(entry.content) != 1:
        raise FileError(f"the parameter {name} has one value")
    if "graph" in entry.content:
        return reader.graph(entry["graph"])
    if "network" in entry.content:
        return read_network(reader, entry["network"])
    if "template" in entry.content:
        return _read_template(entry["template"])
    if "estimator" in entry.content:
        inner = Section(entry["estimator"], name, ("kind", "content"))
        return _read(reader, inner.text("kind"), inner["content"])
    return entry.value("value")


def _template_content(name: str, template: Template) -> dict[str, Any]:
    kind = type(template).__name__
    if TEMPLATES.get(kind) is not type(template):
        raise FileError(
            f"{name} is a template of your own class {kind}, which a file cannot hold; "
            f"set_params({name}=model.graph_) makes it the graph that was fitted"
        )
    return {"kind": kind, "parameters": {key: plain(value, key) for key, value in template.get_params().items()}}


def _read_template(content: Any) -> Template:
    entry = Section(content, "a template", ("kind", "parameters"))
    if entry.text("kind") not in TEMPLATES:
        raise UnknownEntryError(f"there is no template {entry.text('kind')[:60]!r}")
    made = TEMPLATES[entry.text("kind")]
    given = Section(entry["parameters"], "a template's parameters", (), tuple(signature(made).parameters))
    return made(**{name: given.value(name) for name in given.content})


def _fitted_content(writer: Writer, estimator: Any) -> dict[str, Any]:
    if isinstance(estimator, JunctionTreeClassifier):
        return _classes_content(writer, estimator)
    if isinstance(estimator, JunctionTreeImputer):
        return {"estimators": _models_content(writer, estimator)}
    if isinstance(estimator, EMHMM):
        return hmm_content(writer, estimator)
    if isinstance(estimator, SpectralHMM):
        return spectral_hmm_content(writer, estimator)
    content: dict[str, Any] = {"columns": columns_content(estimator.columns_)}
    if isinstance(estimator, SpectralJunctionTree):
        content["plan"] = writer.share("plans", estimator.plan_, lambda plan: plan_content(writer, plan))
        content["model"] = model_content(writer.within("model"), estimator.model_)
        content["report"] = report_content(estimator.report_)
        known = "statistics_" in vars(estimator)
        inner = writer.within("statistics")
        content["statistics"] = statistics_content(inner, estimator.statistics_) if known else None
        return content | _search_content(estimator)
    content["network"] = network_content(writer.within("network"), estimator.network_)
    content["n_iter"], content["converged"] = int(estimator.n_iter_), bool(estimator.converged_)
    content["history"] = _series_content(writer, "history", estimator.history_)
    if isinstance(estimator, OnlineEMJunctionTree):
        content["learner"] = learner_content(writer.within("learner"), estimator.learner_)
        return content
    content["start"] = outcome_content(estimator.start_)
    content["pseudo_counts"] = plain(estimator.pseudo_counts_, "pseudo_counts_")
    if "finish_rows_" in vars(estimator):
        content["finish_rows"] = int(estimator.finish_rows_)
    for name in ("validation_history", "objectives"):
        content[name] = _series_content(writer, name, getattr(estimator, f"{name}_"))
    return content | _search_content(estimator)


def _search_content(estimator: Any) -> dict[str, Any]:
    return {"search": search_content(estimator.search_)} if "search_" in vars(estimator) else {}


def _read_search(entry: Section) -> dict[str, Any]:
    return {"search_": read_search(entry["search"])} if entry.has("search") else {}


def _read_fitted(reader: Reader, kind: str, content: Any) -> dict[str, Any]:
    if kind == JunctionTreeClassifier.__name__:
        return _read_classes(reader, content)
    if kind == JunctionTreeImputer.__name__:
        (model,) = _read_models(reader, Section(content, kind, ("estimators",)), 1)
        return {"estimator_": model}
    if kind == EMHMM.__name__:
        return read_hmm(reader, content)
    if kind == SpectralHMM.__name__:
        return read_spectral_hmm(reader, content)
    if kind == SpectralJunctionTree.__name__:
        return _read_spectral(reader, content)
    more = (
        ("learner",)
        if kind == OnlineEMJunctionTree.__name__
        else (
            "start",
            "pseudo_counts",
            "validation_history",
            "objectives",
        )
    )
    optional = () if kind == OnlineEMJunctionTree.__name__ else ("search", "finish_rows")
    entry = Section(content, kind, ("columns", "network", "n_iter", "converged", "history", *more), optional)
    network = read_network(reader.within("network"), entry["network"])
    fitted = {
        "columns_": checked_columns(entry["columns"], network.graph),
        "model_": network.model,
        "network_": network,
        "n_iter_": entry.whole("n_iter"),
        "converged_": entry.flag("converged"),
        "history_": _read_series(reader, entry, "history"),
    }
    if kind == OnlineEMJunctionTree.__name__:
        learner = read_learner(reader.within("learner"), entry["learner"])
        if learner.graph != network.graph:
            raise FileError("what is learned from is of another graph than what was learned")
        return fitted | {"learner_": learner}
    finished = {"finish_rows_": entry.whole("finish_rows")} if entry.has("finish_rows") else {}
    return (
        fitted
        | _read_search(entry)
        | finished
        | {
            "start_": read_outcome(entry["start"]),
            "pseudo_counts_": entry.number("pseudo_counts"),
            "validation_history_": _read_series(reader, entry, "validation_history"),
            "objectives_": _read_series(reader, entry, "objectives"),
        }
    )


def _read_spectral(reader: Reader, content: Any) -> dict[str, Any]:
    known = ("columns", "plan", "model", "report", "statistics")
    entry = Section(content, "a spectral estimator", known, ("search",))
    plan = reader.share("plans", entry["plan"], lambda document: read_plan(reader, document))
    model = read_model(reader.within("model"), entry["model"], plan)
    fitted = {
        "columns_": checked_columns(entry["columns"], plan.graph),
        "model_": model,
        "report_": read_report(entry["report"], model),
    }
    if entry.has("statistics"):
        statistics = read_statistics(reader.within("statistics"), entry["statistics"])
        check_counts(plan, statistics.counts)
        fitted["statistics_"] = statistics
    return fitted | _read_search(entry)


def _series_content(writer: Writer, name: str, series: Any) -> int:
    """Return how many numbers a series has, after putting it into the file."""
    writer.array(name, np.asarray(series, np.float64))
    return len(series)


def _read_series(reader: Reader, entry: Section, name: str) -> Any:
    series = reader.array(name, ("F64",), entry.whole(name))
    if np.isnan(series).any():
        raise FileError(f"the series {name} holds what is no number")
    return series.copy()


def _classes_content(writer: Writer, classifier: JunctionTreeClassifier) -> dict[str, Any]:
    writer.array("class_prior", classifier.class_prior_)
    shrunk = "shrinkage_" in vars(classifier)
    content = {
        "columns": columns_content(classifier.columns_),
        "classes": labels_content(classifier.classes_),
        "estimators": _models_content(writer, classifier),
        "shrinkage": plain(classifier.shrinkage_, "shrinkage_") if shrunk else None,
        "tried": plain(classifier.tried_, "tried_") if shrunk else None,
    }
    if classifier.target_ is not None:
        content["target"] = classifier.target_
    if "class_column_" in vars(classifier):
        column = classifier.class_column_
        return content | {"columns": columns_content(column.columns), "class_column": column.name}
    return content


def _read_classes(reader: Reader, content: Any) -> dict[str, Any]:
    known = ("columns", "classes", "estimators", "shrinkage", "tried")
    entry = Section(content, "classes", known, ("class_column", "target"))
    classes = read_labels(entry["classes"])
    prior = reader.floats("class_prior", len(classes))
    if not (prior > 0).all() or abs(prior.sum() - 1) > 1e-9:
        raise FileError("a classifier has one share per class")
    models = _read_models(reader, entry, 1 if entry.has("class_column") else len(classes))
    if isinstance(models[0], SequenceMixin):
        columns = columns_of(entry["columns"])
    else:
        columns = checked_columns(entry["columns"], models[0].graph_)
    fitted: dict[str, Any] = {"classes_": classes, "class_prior_": prior.copy()}
    fitted["target_"] = entry.text("target") if entry.has("target") else None
    if entry.has("class_column"):
        column = ClassColumn(columns, entry.text("class_column"))
        if column.name not in columns.names or len(columns.labels(column.name)) != len(classes):
            raise FileError("the column of the class has one state per class")
        return fitted | {"columns_": column.others, "estimator_": models[0], "class_column_": column}
    fitted |= {"columns_": columns, "estimators_": models}
    if entry.has("shrinkage"):
        fitted["shrinkage_"], fitted["tried_"] = entry.number("shrinkage"), entry.value("tried")
    return fitted


def _models_content(writer: Writer, estimator: Any) -> list[dict[str, Any]]:
    return [
        {"kind": _kind(each), "content": _content(writer.within(f"estimators.{k}"), each)}
        for k, each in enumerate(_models(estimator))
    ]


def _read_models(reader: Reader, entry: Section, count: int) -> list[Any]:
    """Return the fitted models that another estimator holds, as many as it needs and of one graph."""
    models: list[Any] = []
    for k, each in enumerate(entry.items("estimators")):
        inner = Section(each, "a fitted model", ("kind", "content"))
        models.append(_read(reader.within(f"estimators.{k}"), inner.text("kind"), inner["content"]))
    if len(models) != count:
        raise FileError(f"there are {len(models)} models where {count} are needed")
    if not all("model_" in vars(each) for each in models) or len({_columns_of(each) for each in models}) != 1:
        raise FileError("the models are fitted, and are of the same columns")
    return models


def _columns_of(model: Any) -> tuple[tuple[str, int], ...]:
    """Return the columns of a fitted model and their numbers of states; each class may have its own graph."""
    if isinstance(model, SequenceMixin):
        return tuple(zip(model.columns_.names, model.columns_.states, strict=True))
    graph = model.graph_
    return tuple((name, graph.states[name]) for name in graph.observed)
