"""Latent-variable models of discrete data: latent classes, hidden Markov models, latent trees; spectral and EM.

Names load when first used, so that ``import eigentree`` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigentree import datasets as datasets
    from eigentree.counting.counts import Counts as Counts
    from eigentree.counting.learned_structure import learn_structure as learn_structure
    from eigentree.counting.pairs import PairCounts as PairCounts
    from eigentree.counting.statistics import Statistics as Statistics
    from eigentree.data.labeled_table import LabeledTable as LabeledTable
    from eigentree.data.partitions import Partitions as Partitions
    from eigentree.em.expected_tables import expected_counts as expected_counts
    from eigentree.engine.tensor import LabeledTensor as LabeledTensor
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
    from eigentree.exact.network import LatentNetwork as LatentNetwork
    from eigentree.models.classifier import JunctionTreeClassifier as JunctionTreeClassifier
    from eigentree.models.dependencies import dependencies as dependencies
    from eigentree.models.em import EMJunctionTree as EMJunctionTree
    from eigentree.models.em_hmm import EMHMM as EMHMM
    from eigentree.models.em_hmm import HMM as HMM
    from eigentree.models.files import load as load
    from eigentree.models.hmm_sizes import select_hmm as select_hmm
    from eigentree.models.imputer import JunctionTreeImputer as JunctionTreeImputer
    from eigentree.models.latent_class import LatentClassModel as LatentClassModel
    from eigentree.models.online_em import OnlineEMJunctionTree as OnlineEMJunctionTree
    from eigentree.models.profiles import profiles as profiles
    from eigentree.models.spectral import SpectralJunctionTree as SpectralJunctionTree
    from eigentree.models.spectral_hmm import SpectralHMM as SpectralHMM
    from eigentree.structures import zoo as zoo
    from eigentree.structures.graph import LatentGraph as LatentGraph
    from eigentree.structures.junction_tree import JunctionTree as JunctionTree
    from eigentree.viz import plot as plot
    from eigentree.viz.reports.report import report as report

__version__ = "0.2.0"

_HOME = {
    "Counts": "counting.counts",
    "DataError": "errors",
    "EMHMM": "models.em_hmm",
    "EMJunctionTree": "models.em",
    "EigentreeError": "errors",
    "FileError": "errors",
    "GraphError": "errors",
    "HMM": "models.em_hmm",
    "JunctionTree": "structures.junction_tree",
    "JunctionTreeClassifier": "models.classifier",
    "JunctionTreeImputer": "models.imputer",
    "LabeledTable": "data.labeled_table",
    "LabeledTensor": "engine.tensor",
    "LatentClassModel": "models.latent_class",
    "LatentGraph": "structures.graph",
    "LatentNetwork": "exact.network",
    "NetworkError": "errors",
    "OnlineEMJunctionTree": "models.online_em",
    "PairCounts": "counting.pairs",
    "ParameterError": "errors",
    "Partitions": "data.partitions",
    "RankError": "errors",
    "SpectralHMM": "models.spectral_hmm",
    "SpectralJunctionTree": "models.spectral",
    "Statistics": "counting.statistics",
    "TensorError": "errors",
    "TreewidthError": "errors",
    "UnknownNameError": "errors",
    "dependencies": "models.dependencies",
    "expected_counts": "em.expected_tables",
    "learn_structure": "counting.learned_structure",
    "load": "models.files",
    "profiles": "models.profiles",
    "report": "viz.reports.report",
    "select_hmm": "models.hmm_sizes",
}
_MODULES = {"datasets": "datasets", "plot": "viz.plot", "zoo": "structures.zoo"}

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
