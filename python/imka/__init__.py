"""Kernel approximation with random features, in float32 and on an emulated analog chip.

Estimators (need scikit-learn): RandomFeatures, KernelRidgeClassifier, KernelRidgeRegressor, ChipProjection.
Chips: Chip, ProgrammedChip. Networks: Model, deploy, run. Verbs of the program: cost, evaluate, gram, ridge,
sweep, report, command, help_of. Data: datasets. Attention: attention.
"""
import importlib
from typing import TYPE_CHECKING

from . import attention, datasets
from ._chip import Chip, ProgrammedChip
from ._errors import ConfigError, DataError, Error, FileError, MissingPartError, NumericError, missing_package
from ._imka import version as __version__
from ._model import Deployment, Model, deploy, run
from ._result import Result
from ._verbs import command, cost, evaluate, gram, help_of, report, ridge, sweep

if TYPE_CHECKING:
    from ._estimators import ChipProjection, KernelRidgeClassifier, KernelRidgeRegressor, RandomFeatures

__all__ = [
    "RandomFeatures", "KernelRidgeClassifier", "KernelRidgeRegressor", "ChipProjection", "Chip", "ConfigError", "DataError",
    "Deployment", "Error", "FileError", "MissingPartError", "Model", "NumericError", "ProgrammedChip", "Result",
    "attention", "command", "cost", "datasets", "deploy", "evaluate", "gram", "help_of", "report", "ridge", "run", "sweep",
    "__version__",
]
_ESTIMATORS = __all__[:4]


def __getattr__(name):
    """Loads the estimators on first use, so that the rest works without scikit-learn."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'imka' has no attribute '{name}'")
    try:
        estimators = importlib.import_module("._estimators", __name__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("sklearn", "scipy"):
            raise
        raise missing_package(f"imka.{name}", "scikit-learn") from error
    for estimator in _ESTIMATORS:
        globals()[estimator] = getattr(estimators, estimator)
    return globals()[name]


def __dir__():
    return sorted(__all__)
