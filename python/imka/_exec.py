"""Threads and progress of a computation."""
import os
import sys

from . import _imka
from ._errors import ConfigError


def thread_count(n_jobs):
    """Threads for scikit-learn's n_jobs. None: all cores, or fewer if OMP_NUM_THREADS says so.

    joblib sets OMP_NUM_THREADS in its workers, so that workers do not start more threads than there are cores.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    if n_jobs == 0:
        raise ConfigError("n_jobs: 0; expected a positive number, -1 for all cores, or None")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class _Bar:
    """A tqdm bar where tqdm is installed, else lines on standard error."""

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
    return _imka.Exec(thread_count(n_jobs), _Bar() if verbose else None)
