"""Multiple-instance learning that finds the instances which make a bag positive.

>>> from pigmil.datasets import make_ring
>>> bags = make_ring(random_state=0)
>>> bags.shape
(40, 2)
"""

import importlib
from typing import TYPE_CHECKING, Any

from pigmil._core import __version__
from pigmil.estimators.registry import DEEP_METHODS, METHODS

# Public name -> where it lives. Loaded on first use, so that `import pigmil` stays light.
_HOME = {
    "BagImputer": "pigmil.bags",
    "BagScaler": "pigmil.bags",
    "BagStatistics": "pigmil.estimators.statistics",
    "Bags": "pigmil.bags",
    "LazyBags": "pigmil.bags",
    "OnInstances": "pigmil.bags",
    "PaperReading": "pigmil.graph.reading",
    "BagFormatError": "pigmil._core.errors",
    "ModelFileError": "pigmil._core.errors",
    "StoreError": "pigmil._core.errors",
    "all_estimators": "pigmil.estimators",
    "as_bags": "pigmil.bags",
    "diagnose": "pigmil.evaluation._selection",
    "instance_scores": "pigmil.metrics",
    "load_model": "pigmil.estimators.persistence",
    "model_types": "pigmil.estimators.persistence",
    "read_bags": "pigmil.io",
    "scan_bags": "pigmil.io",
    "save_model": "pigmil.estimators.persistence",
    "select_instances": "pigmil.evaluation._selection",
    "suggest_instances": "pigmil.evaluation._suggest",
    "write_bags": "pigmil.io",
    **METHODS,
    **DEEP_METHODS,
}
_ROOMS = (
    "datasets",
    "distances",
    "estimators",
    "evaluation",
    "exemplars",
    "graph",
    "io",
    "metrics",
    "report",
    "retrieval",
    "scale",
)

__all__ = ["__version__", *_HOME, *_ROOMS]

if TYPE_CHECKING:
    from pigmil._core.errors import BagFormatError as BagFormatError
    from pigmil._core.errors import ModelFileError as ModelFileError
    from pigmil._core.errors import StoreError as StoreError
    from pigmil.bags import BagImputer as BagImputer
    from pigmil.bags import Bags as Bags
    from pigmil.bags import BagScaler as BagScaler
    from pigmil.bags import LazyBags as LazyBags
    from pigmil.bags import OnInstances as OnInstances
    from pigmil.bags import as_bags as as_bags
    from pigmil.estimators import all_estimators as all_estimators
    from pigmil.estimators.abmil import ABMIL as ABMIL
    from pigmil.estimators.apr import APR as APR
    from pigmil.estimators.citation_knn import CitationKNN as CitationKNN
    from pigmil.estimators.clustering_mil import ClusteringMIL as ClusteringMIL
    from pigmil.estimators.diverse_density import DD as DD
    from pigmil.estimators.diverse_density import EMDD as EMDD
    from pigmil.estimators.kde import KDE as KDE
    from pigmil.estimators.kde import KDEMax as KDEMax
    from pigmil.estimators.kde import KDEMin as KDEMin
    from pigmil.estimators.ki_svm import BagKISVM as BagKISVM
    from pigmil.estimators.ki_svm import InsKISVM as InsKISVM
    from pigmil.estimators.max_pooling_lr import MaxPoolingLR as MaxPoolingLR
    from pigmil.estimators.mi_graph import MIGraph as MIGraph
    from pigmil.estimators.mi_graph import MiGraph as MiGraph
    from pigmil.estimators.mi_kernel import MIKernel as MIKernel
    from pigmil.estimators.mi_net import MINet as MINet
    from pigmil.estimators.mi_sim import MiSim as MiSim
    from pigmil.estimators.mi_svm import MISVM as MISVM
    from pigmil.estimators.mi_svm import MiSVM as MiSVM
    from pigmil.estimators.mild import MILD as MILD
    from pigmil.estimators.miles import MILES as MILES
    from pigmil.estimators.milis import MILIS as MILIS
    from pigmil.estimators.mind import MInD as MInD
    from pigmil.estimators.mmil import MMIL as MMIL
    from pigmil.estimators.persistence import load_model as load_model
    from pigmil.estimators.persistence import model_types as model_types
    from pigmil.estimators.persistence import save_model as save_model
    from pigmil.estimators.pigmil import PIGMIL as PIGMIL
    from pigmil.estimators.sil import SIL as SIL
    from pigmil.estimators.single_instance import SingleInstance as SingleInstance
    from pigmil.estimators.soft_pigmil import SoftPIGMIL as SoftPIGMIL
    from pigmil.estimators.statistics import BagStatistics as BagStatistics
    from pigmil.estimators.statistics import StatisticsBoosting as StatisticsBoosting
    from pigmil.estimators.statistics import StatisticsSVC as StatisticsSVC
    from pigmil.evaluation._selection import diagnose as diagnose
    from pigmil.evaluation._selection import select_instances as select_instances
    from pigmil.evaluation._suggest import suggest_instances as suggest_instances
    from pigmil.graph.reading import PaperReading as PaperReading
    from pigmil.io import read_bags as read_bags
    from pigmil.io import scan_bags as scan_bags
    from pigmil.io import write_bags as write_bags
    from pigmil.metrics import instance_scores as instance_scores


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"pigmil.{name}")
    raise AttributeError(f"module 'pigmil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
