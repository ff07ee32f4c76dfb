"""Data sets: registered ones, generators, and files (LIBSVM, ARFF, CSV, NPY)."""
from __future__ import annotations

import os
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _imka
from ._exec import make_exec
from ._result import Result
from ._settings import flag, settings_of, whole
from ._verbs import Path, path_text, run_verb

__all__ = ["Dataset", "available", "fetch", "info", "load"]


class Dataset:
    """Training and test parts: x_train, y_train, x_test, y_test, which can also be unpacked in this order.

    classes : the names of the class numbers in y; empty for regression.
    """

    def __init__(self, loaded):
        self.name: str = loaded["name"]
        self.classes: NDArray[np.str_] = np.array(loaded["classes"])
        self.source_sha256: str = loaded["source_sha256"]
        self.x_train: NDArray[np.float32]
        self.x_test: NDArray[np.float32]
        self.y_train: NDArray[Any]
        self.y_test: NDArray[Any]
        self.x_train, self.y_train = loaded["train"]["x"], loaded["train"]["y"]
        self.x_test, self.y_test = loaded["test"]["x"], loaded["test"]["y"]

    def __iter__(self):
        """x_train, y_train, x_test, y_test"""
        return iter((self.x_train, self.y_train, self.x_test, self.y_test))

    def __repr__(self):
        kind = f"{len(self.classes)} classes" if len(self.classes) else "regression"
        return (f"<imka.datasets.Dataset {self.name}: {len(self.x_train)} training rows, {len(self.x_test)} test rows, "
                f"{self.x_train.shape[1]} columns, {kind}>")


def load(name: Path, *, data_dir: Optional[Path] = None, n_jobs: Optional[int] = None, verbose: int = 0,
         **options: Any) -> Dataset:
    """Loads, splits and standardises a data set.

    name : a registered set, a generator, a file, or 'TRAIN:TEST'.
    data_dir : folder of registered sets; default: the environment variable IMKA_DATA.
    options : protocol, task, split_seed, format, label_column, header, drop_columns, missing, and standardize,
        train_rows, test_rows.
    """
    more = {name: whole(options.pop(name), name) for name in ("train_rows", "test_rows") if name in options}
    if "standardize" in options:
        more["standardize"] = flag(options.pop("standardize"), "standardize")
    settings = settings_of({"dataset": path_text(name), **options}, "run")
    folder = path_text(data_dir) if data_dir is not None else os.environ.get("IMKA_DATA", "")
    return Dataset(_imka.load_dataset(settings, folder, more, make_exec(n_jobs, verbose)))


def available(data_dir: Optional[Path] = None) -> Result:
    """The known data sets (`imka data list`)."""
    return Result(run_verb(["data", "list"], data_dir=data_dir)[1], table="sets", bars=("name", "rows"),
                  columns=("name", "rows", "d", "classes", "present"))


def info(name: str, data_dir: Optional[Path] = None) -> Result:
    """Sizes, source and licence of a data set (`imka data info`)."""
    return Result(run_verb(["data", "info"], [name], data_dir=data_dir)[1], bars=("train", "test"))


def fetch(name: str, data_dir: Path, verbose: int = 0) -> Result:
    """Downloads a registered set and checks it (`imka data fetch`)."""
    return Result(run_verb(["data", "fetch"], [name], data_dir=data_dir, verbose=verbose)[1])
