"""Estimators in files: parameters, what was fitted, and `load`, which reads whatever eigentree has saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

import eigentree
from eigentree.counting.additive import read_stored
from eigentree.counting.levels.hat_plan import with_numbers
from eigentree.counting.pair_counts import PairCounts
from eigentree.counting.statistics import Statistics
from eigentree.data.tables.columns import checked_columns, columns_content, columns_of
from eigentree.errors import FileError
from eigentree.estimators.classification.class_column import ClassColumn
from eigentree.estimators.classification.stored_labels import labels_content, read_labels
from eigentree.estimators.fits.fitted_records import RECORDS
from eigentree.estimators.imputer import OUTPUTS
from eigentree.estimators.mixins.constructor_parameters import Parameters, current_names
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin
from eigentree.graphs import zoo
from eigentree.graphs.coercion import as_structure, require_structure
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import open_template
from eigentree.graphs.templates import Template
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.sequences.tree_chain import TreeChain
from eigentree.inference.stored_network import KIND as NETWORK
from eigentree.inference.stored_network import network_content, read_network
from eigentree.io.documents import Section, UnknownEntryError, plain
from eigentree.io.stores import Writer, opened_store
from eigentree.spectral.sequences.transducer import Transducer, output_columns

if TYPE_CHECKING:
    import os

    from eigentree.io.stores import Reader

__all__ = ["load", "save_estimator"]

CLASSIFIER, TAGGER, IMPUTER = "JunctionTreeClassifier", "SequenceTagger", "JunctionTreeImputer"
"""Estimators that hold others."""

ESTIMATORS = (*RECORDS, CLASSIFIER, TAGGER, IMPUTER)

TEMPLATES: Mapping[str, type[Template]] = {
    name: each
    for name in zoo.__all__
    if isinstance(each := getattr(zoo, name), type) and issubclass(each, Template) and each is not Template
}

ARRAYS = ("init", "start", "transitions", "fixed", "equal")
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

    Parameters, fitted attributes and results are bit-identical, and `partial_fit` continues; a `random_state` that
    was a Generator is None. Nothing in the file is executed, and it can be read on any machine by any later
    version.

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
        if reader.kind == NETWORK:
            return read_network(reader, reader.content)
        for kind in (Statistics, PairCounts):
            if reader.kind == kind.__name__:
                return read_stored(kind, reader, reader.content)
        return _read(reader, reader.kind, reader.content)


def _kind(estimator: Any) -> str:
    name = type(estimator).__name__
    if name not in ESTIMATORS or getattr(eigentree, name) is not type(estimator):
        raise FileError(f"a file holds eigentree's own estimators, not a {name}")
    return name


def _content(writer: Writer, estimator: Any, graph: LatentGraph | None = None) -> dict[str, Any]:
    """Return the document of an estimator, after putting its arrays into the file.

    What the graph of another library stands for is the graph that was fitted, by this estimator or by those for
    which it is the pattern.
    """
    known = estimator.__sklearn_is_fitted__()
    if known:
        # Models of sequences and trees have none.
        graph = getattr(_models(estimator)[0], "graph_", graph)
    content: dict[str, Any] = {
        "parameters": {
            name: _parameter_content(writer.within(name), name, value, graph)
            for name, value in estimator.get_params(deep=False).items()
        },
        "fitted": _fitted_content(writer, estimator) if known else None,
    }
    if _kind(estimator) == IMPUTER and estimator.output is not None:
        content["output"] = estimator.output
    return content


def _models(estimator: Any) -> list[Any]:
    """Return the fitted models that an estimator holds: its own, or itself."""
    if "estimators_" in vars(estimator):
        return list(estimator.estimators_)
    return [vars(estimator).get("estimator_", estimator)]


def _read(reader: Reader, kind: str, content: Any) -> Any:
    if kind not in ESTIMATORS:
        raise UnknownEntryError(f"it holds a {kind[:60]!r}, which is not known")
    made = getattr(eigentree, kind)
    entry = Section(content, kind, ("parameters", "fitted"), ("output",) if kind == IMPUTER else ())
    known = signature(made).parameters
    # A parameter that a later version has added has its default there.
    stored = entry["parameters"]
    stored = current_names(made, stored) if isinstance(stored, dict) else stored
    given = Section(stored, f"{kind}: parameters", (), tuple(known))
    parameters = {name: _read_parameter(reader.within(name), name, given[name]) for name in given.content}
    estimator = made(**parameters)
    if kind == IMPUTER and entry.has("output"):
        output: Any = entry.text("output")
        if output not in OUTPUTS:
            raise UnknownEntryError(f"{entry.at('output')} is {' or '.join(OUTPUTS)}, not {output[:60]!r}")
        estimator.set_output(transform=output)
    if entry.has("fitted"):
        inner = getattr(estimator, "estimator", None)
        if inner is not None and type(inner).__name__ not in ESTIMATORS:
            raise FileError("a classifier or imputer that was fitted has an estimator, or the default one")
        vars(estimator).update(_read_fitted(reader, kind, entry["fitted"]))
    return estimator


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
    if name in ARRAYS:
        value = _listed(value)
    return {"value": plain(value, f"the parameter {name}")}


def _listed(value: Any) -> Any:
    """Return a parameter with its arrays as lists, which a file can hold."""
    if isinstance(value, Mapping):
        return {key: _listed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_listed, value))
    return np.asarray(value).tolist() if isinstance(value, np.ndarray) else value


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
    kind = _kind(estimator)
    if kind in (CLASSIFIER, TAGGER):
        return _classes_content(writer, estimator)
    if kind == IMPUTER:
        return {"estimators": _models_content(writer, estimator)}
    return RECORDS[kind].write(writer, estimator)


def _read_fitted(reader: Reader, kind: str, content: Any) -> dict[str, Any]:
    if kind in (CLASSIFIER, TAGGER):
        return _read_classes(reader, content, kind == TAGGER)
    if kind == IMPUTER:
        (model,) = _read_models(reader, Section(content, kind, ("estimators",)), 1)
        return {"estimator_": model}
    fitted = RECORDS[kind].read(reader, content)
    if kind == "SpectralHMM":
        return _spectral_chain(fitted)
    if isinstance(fitted.get("model_"), TreeChain) != (kind == "HiddenMarkovTree"):
        raise FileError("a hidden Markov tree, and it alone, has a chain of trees")
    held: Any = fitted.pop("plan_", None) or fitted.get("network_")
    if held is not None and not fitted["columns_"].are_of(with_numbers(held.graph, fitted["columns_"].numbers)):
        raise FileError("the columns are not those of the graph")
    if "network_" in fitted and fitted["network_"].columns.numbers != fitted["columns_"].numbers:
        raise FileError("the columns of numbers are not those of the network")
    if "learner_" in fitted and fitted["learner_"].graph != held.graph:
        raise FileError("what is learned from is of another graph than what was learned")
    return fitted


def _spectral_chain(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return what was fitted of a spectral chain, with its columns."""
    columns, model = fitted["statistics_"].columns, fitted["model_"]
    if not isinstance(model, Transducer):
        return {"columns_": columns, **fitted}
    inputs = fitted.pop("_input_columns", None)
    if inputs is None or inputs.states + output_columns(columns).states != columns.states:
        raise FileError("the inputs of a transducer are not those of its pairs")
    return {"columns_": output_columns(columns), **fitted, "model_": replace(model, input_columns=inputs)}


def _classes_content(writer: Writer, classifier: Any) -> dict[str, Any]:
    writer.array("class_prior", classifier.class_prior_)
    shrunk, trained = ("shrinkage_" in vars(classifier)), ("alpha_" in vars(classifier))
    content = {
        "columns": columns_content(classifier.columns_),
        "classes": labels_content(classifier.classes_),
        "estimators": _models_content(writer, classifier),
        "shrinkage": plain(vars(classifier)["shrinkage_"], "shrinkage_") if shrunk else None,
        "tried": plain(classifier.tried_, "tried_") if shrunk or trained else None,
    }
    if trained:
        content["alpha"] = plain(classifier.alpha_, "alpha_")
    if classifier.target_ is not None:
        content["target"] = classifier.target_
    if isinstance(column := vars(classifier).get("class_column_"), ClassColumn):
        return content | {"columns": columns_content(column.columns), "class_column": column.name}
    return content


def _read_classes(reader: Reader, content: Any, of_steps: bool) -> dict[str, Any]:
    known = ("columns", "classes", "estimators", "shrinkage", "tried")
    entry = Section(content, "classes", known, ("class_column", "target", "alpha"))
    classes = read_labels(entry["classes"])
    prior = reader.floats("class_prior", len(classes))
    if not (prior > 0).all() or abs(prior.sum() - 1) > 1e-9:
        raise FileError("a classifier has one share per class")
    models = _read_models(reader, entry, 1 if of_steps or entry.has("class_column") else len(classes))
    if isinstance(models[0], SequenceMixin):
        columns = columns_of(entry["columns"])
        if (columns.names, columns.states) != (models[0].columns_.names, models[0].columns_.states):
            raise FileError("the columns of a classifier of sequences are those of its models")
    else:
        columns = checked_columns(entry["columns"], models[0].graph_)
    fitted: dict[str, Any] = {"classes_": classes, "class_prior_": prior.copy()}
    fitted["target_"] = entry.text("target") if entry.has("target") else None
    if entry.has("alpha"):
        fitted["alpha_"], fitted["tried_"] = entry.number("alpha"), entry.value("tried")
    if of_steps:
        if _kind(models[0]) != "EMHMM" or models[0].model_.states % len(classes):
            raise FileError("a tagger has a hidden Markov model with equally many states for each label")
        return fitted | {"columns_": columns, "estimator_": models[0]}
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
    # Each class may have a graph of its own, over the same columns.
    same = {(each.columns_.names, each.columns_.states) for each in models if hasattr(each, "model_")}
    if not all(hasattr(each, "model_") for each in models) or len(same) != 1:
        raise FileError("the models are fitted, and are of the same columns")
    return models
