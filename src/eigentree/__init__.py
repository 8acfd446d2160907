"""Latent-variable models of categories and numbers: latent classes, hidden Markov models, latent trees.

Names load when first used, so that ``import eigentree`` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigentree import datasets as datasets
    from eigentree.counting.counts import Counts as Counts
    from eigentree.counting.pair_counts import PairCounts as PairCounts
    from eigentree.counting.statistics import Statistics as Statistics
    from eigentree.counting.structure_and_schema import learn_structure as learn_structure
    from eigentree.data.streams.file_batches import open_table as open_table
    from eigentree.data.streams.partitions import Partitions as Partitions
    from eigentree.data.tables.labeled_table import LabeledTable as LabeledTable
    from eigentree.data.treebanks.tree import Tree as Tree
    from eigentree.data.treebanks.tree_sources import read_trees as read_trees
    from eigentree.em.estep.expected_tables import expected_counts as expected_counts
    from eigentree.emissions.base import Emission as Emission
    from eigentree.errors import DataError as DataError
    from eigentree.errors import EigentreeError as EigentreeError
    from eigentree.errors import FileError as FileError
    from eigentree.errors import GraphError as GraphError
    from eigentree.errors import NetworkError as NetworkError
    from eigentree.errors import ParameterError as ParameterError
    from eigentree.errors import RankError as RankError
    from eigentree.errors import TensorError as TensorError
    from eigentree.errors import TreewidthError as TreewidthError
    from eigentree.errors import UnknownNameError as UnknownNameError
    from eigentree.estimators.classification.classifier import JunctionTreeClassifier as JunctionTreeClassifier
    from eigentree.estimators.classification.sequence_tagger import SequenceTagger as SequenceTagger
    from eigentree.estimators.dependencies import dependencies as dependencies
    from eigentree.estimators.em_hmm import EMHMM as EMHMM
    from eigentree.estimators.em_hmm import HMM as HMM
    from eigentree.estimators.em_junction_tree import EMJunctionTree as EMJunctionTree
    from eigentree.estimators.imputer import JunctionTreeImputer as JunctionTreeImputer
    from eigentree.estimators.latent_class import LatentClassModel as LatentClassModel
    from eigentree.estimators.mixture_hmm import MixtureHMM as MixtureHMM
    from eigentree.estimators.model_files import load as load
    from eigentree.estimators.model_selection import select as select
    from eigentree.estimators.online_em import OnlineEMJunctionTree as OnlineEMJunctionTree
    from eigentree.estimators.profiles import profiles as profiles
    from eigentree.estimators.spectral_hmm import SpectralHMM as SpectralHMM
    from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree as SpectralJunctionTree
    from eigentree.estimators.trees.hidden_markov_tree import HiddenMarkovTree as HiddenMarkovTree
    from eigentree.estimators.trees.latent_grammar import LatentGrammar as LatentGrammar
    from eigentree.estimators.trees.spectral_latent_grammar import SpectralLatentGrammar as SpectralLatentGrammar
    from eigentree.graphs import zoo as zoo
    from eigentree.graphs.graph import LatentGraph as LatentGraph
    from eigentree.graphs.junction_tree import JunctionTree as JunctionTree
    from eigentree.inference.mixed.mixed_network import MixedNetwork as MixedNetwork
    from eigentree.inference.networks.network import LatentNetwork as LatentNetwork
    from eigentree.inference.tensors.tensor import LabeledTensor as LabeledTensor
    from eigentree.uncertainty.bootstrap import bootstrap as bootstrap
    from eigentree.uncertainty.bootstrap import replicate_variance as replicate_variance
    from eigentree.uncertainty.classification_table import classification_table as classification_table
    from eigentree.uncertainty.external.class_regression import class_regression as class_regression
    from eigentree.uncertainty.external.distal_outcomes import distal_outcomes as distal_outcomes
    from eigentree.uncertainty.labelled_f1 import labelled_f1 as labelled_f1
    from eigentree.uncertainty.likelihood_ratio import (
        bootstrap_likelihood_ratio_test as bootstrap_likelihood_ratio_test,
    )
    from eigentree.uncertainty.likelihood_ratio import likelihood_ratio_test as likelihood_ratio_test
    from eigentree.uncertainty.model_fit import bivariate_residuals as bivariate_residuals
    from eigentree.uncertainty.model_fit import goodness_of_fit as goodness_of_fit
    from eigentree.uncertainty.multiple_imputation import multiple_imputation as multiple_imputation
    from eigentree.uncertainty.multiple_imputation import pool as pool
    from eigentree.viz import plot as plot
    from eigentree.viz.reports.report import report as report

__version__ = "0.3.0"

_NAMES = {
    "counting.counts": "Counts",
    "counting.pair_counts": "PairCounts",
    "counting.statistics": "Statistics",
    "counting.structure_and_schema": "learn_structure",
    "data.streams.file_batches": "open_table",
    "data.streams.partitions": "Partitions",
    "data.tables.labeled_table": "LabeledTable",
    "data.treebanks.tree": "Tree",
    "data.treebanks.tree_sources": "read_trees",
    "em.estep.expected_tables": "expected_counts",
    "emissions.base": "Emission",
    "errors": "DataError EigentreeError FileError GraphError NetworkError ParameterError RankError "
    "TensorError TreewidthError UnknownNameError",
    "estimators.classification.classifier": "JunctionTreeClassifier",
    "estimators.classification.sequence_tagger": "SequenceTagger",
    "estimators.dependencies": "dependencies",
    "estimators.em_hmm": "EMHMM HMM",
    "estimators.em_junction_tree": "EMJunctionTree",
    "estimators.imputer": "JunctionTreeImputer",
    "estimators.latent_class": "LatentClassModel",
    "estimators.trees.latent_grammar": "LatentGrammar",
    "estimators.trees.spectral_latent_grammar": "SpectralLatentGrammar",
    "estimators.mixture_hmm": "MixtureHMM",
    "estimators.model_files": "load",
    "estimators.model_selection": "select",
    "estimators.online_em": "OnlineEMJunctionTree",
    "estimators.profiles": "profiles",
    "estimators.spectral_hmm": "SpectralHMM",
    "estimators.spectral_junction_tree": "SpectralJunctionTree",
    "estimators.trees.hidden_markov_tree": "HiddenMarkovTree",
    "graphs.graph": "LatentGraph",
    "graphs.junction_tree": "JunctionTree",
    "inference.mixed.mixed_network": "MixedNetwork",
    "inference.networks.network": "LatentNetwork",
    "inference.tensors.tensor": "LabeledTensor",
    "uncertainty.bootstrap": "bootstrap replicate_variance",
    "uncertainty.classification_table": "classification_table",
    "uncertainty.labelled_f1": "labelled_f1",
    "uncertainty.likelihood_ratio": "bootstrap_likelihood_ratio_test likelihood_ratio_test",
    "uncertainty.external.class_regression": "class_regression",
    "uncertainty.external.distal_outcomes": "distal_outcomes",
    "uncertainty.model_fit": "bivariate_residuals goodness_of_fit",
    "uncertainty.multiple_imputation": "multiple_imputation pool",
    "viz.reports.report": "report",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = {"datasets": "datasets", "plot": "viz.plot", "zoo": "graphs.zoo"}

__all__ = ["__version__", *sorted(_HOME), *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"eigentree.{_MODULES[name]}")
    if name in _HOME:
        value = getattr(import_module(f"eigentree.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'eigentree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
