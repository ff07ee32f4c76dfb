"""Inputs, threads and progress of a computation."""
import numbers
import os
import sys

import numpy as np

from . import _imka
from ._errors import ConfigError, DataError


_HOST_DEVICES = (1, 3)  # DLPack device types: processor memory, and processor memory that a GPU can read


def as_array(x):
    """Converts an array that supports only DLPack to a NumPy array without a copy; returns anything else unchanged."""
    if isinstance(x, np.ndarray) or not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        return x
    if getattr(x, "requires_grad", False):
        raise DataError(f"{type(x).__name__}: requires a gradient, which imka does not compute; call its detach() first")
    try:
        if x.__dlpack_device__()[0] not in _HOST_DEVICES:
            raise BufferError("the data are on another device")
        return x if hasattr(x, "__array__") else np.from_dlpack(x)
    except (BufferError, RuntimeError) as error:
        raise DataError(f"{type(x).__name__}: {error}; expected an array in the memory of the processor") from error


def dense_array(x, what):
    """x as a NumPy array, without a copy if NumPy can view it. what: its name in error messages."""
    if hasattr(x, "toarray"):
        raise DataError(f"{what}: a sparse matrix; call its toarray() first")
    return np.asarray(as_array(x))


def typed_array(x, what, dtype=np.float32):
    """x as an array of this type in C order, without a copy if it already has this form."""
    array = dense_array(x, what)
    if array.dtype.kind not in "biufO":
        raise DataError(f"{what}: elements of type {array.dtype}; expected real numbers")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected below or by the caller
            typed = np.asarray(array, dtype=dtype, order="C")
    except (TypeError, ValueError) as error:
        raise DataError(f"{what}: {error}; expected real numbers") from error
    if typed.dtype.kind in "iu" and typed.dtype != array.dtype and not np.array_equal(typed, array):
        raise DataError(f"{what}: some numbers are not integers of type {typed.dtype}")
    return typed


def thread_count(n_jobs):
    """Threads for scikit-learn's n_jobs. None: all cores, but at most OMP_NUM_THREADS if set.

    joblib sets OMP_NUM_THREADS in its workers, so that workers do not start more threads than there are cores.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    if not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ConfigError(f"n_jobs: {n_jobs!r}; expected a positive integer, -1 for all cores, or None")
    return min(int(n_jobs), 2**31 - 1) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


class _Bar:
    """A tqdm bar if tqdm is installed, otherwise lines on standard error."""

    def __init__(self):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self._tqdm = tqdm
        self._bar = None

    def start(self, label, total, done):
        self._label, self._total = label, total
        if self._tqdm is not None:
            self._bar = self._tqdm(total=total or None, initial=done, desc=label, leave=False)

    def update(self, done):
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        else:
            share = f"{100 * done / self._total:.0f} %" if self._total else str(done)
            print(f"{self._label}: {share}", file=sys.stderr)

    def finish(self):
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def note(self, text):
        print(f"note: {text}", file=sys.stderr)


def make_exec(n_jobs=None, verbose=0):
    shown = verbose and sys.stderr is not None  # None in programs without a terminal
    return _imka.Exec(thread_count(n_jobs), _Bar() if shown else None)
