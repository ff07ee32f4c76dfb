"""The verbs of the program as functions. Options are named as on the command line, with '_' for '-'."""
from __future__ import annotations

import errno
import json
import os
import re
from typing import Any, Optional, Sequence, Union

import numpy as np

from . import _imka
from ._errors import ConfigError, DataError, FileError
from ._exec import make_exec
from ._result import Result
from ._settings import text_of

Path = Union[str, os.PathLike[str]]


def path_text(path, expected="a file name"):
    """A path as text."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"expected {expected}, not {type(path).__name__}") from None


def existing(path, expected="a file name"):
    """The path of an existing file or folder, as text."""
    text = path_text(path, expected)
    if not os.path.exists(text):
        raise FileError(f"{text}: cannot be read: {os.strerror(errno.ENOENT)}")
    return text


def _option(name, value):
    """One option as arguments. Lists repeat it; a dict is a list of KEY=VALUE."""
    if value is None or value is False:
        return []
    if isinstance(value, (range, np.ndarray)):
        value = np.asarray(value).tolist()
    flag = "--" + name.replace("_", "-")
    if isinstance(value, dict):
        return [f"{flag}={k}={text_of(v)}" for k, v in value.items()]
    if isinstance(value, (list, tuple)) and name not in ("seeds", "seed"):
        return [f"{flag}={os.fspath(v) if hasattr(v, '__fspath__') else text_of(v)}" for v in value]
    return [f"{flag}={os.fspath(value) if hasattr(value, '__fspath__') else text_of(value)}"]


def run_verb(words, positional=(), n_jobs=None, verbose=0, data_dir=None, **options):
    """Exit code and JSON document of `imka WORDS POSITIONAL --json`. Errors are raised."""
    if not words:
        raise ConfigError("no verb; expected one such as 'cost'")
    arguments = [*words, *map(path_text, positional), "--json"]
    for name, value in options.items():
        arguments += _option(name, value)
    folder = path_text(data_dir) if data_dir is not None else os.environ.get("IMKA_DATA", "")
    code, out, messages = _imka.command(arguments, folder, make_exec(n_jobs, verbose))
    if code == 2:
        raise ConfigError(messages.removesuffix("Run with --help for more information.\n").strip().removeprefix("imka: "))
    try:
        return code, json.loads(out)
    except ValueError:
        raise DataError(f"imka {' '.join(words)}: {messages.strip() or 'no result'}") from None


def command(verb: str, *positional: Path, **options: Any) -> Result:
    """Runs any verb of the program that has --json, and returns its document.

    command("gram", dataset="ringnorm", sampler="sorf", seeds="0..4") is
    `imka gram --dataset ringnorm --sampler sorf --seeds 0..4 --json`. Words of a verb are separated by spaces:
    command("chip info"). n_jobs, verbose and data_dir work as in all functions.
    """
    return Result(run_verb(verb.split(), positional, **options)[1])


def help_of(verb: str) -> str:
    """The options of a verb: the text of `imka VERB --help`."""
    text = _imka.command([*verb.split(), "--help"], "", make_exec(1))[1]
    # For an unknown verb, the program prints the help of the words before it.
    if not re.search(rf"^Usage: imka {re.escape(' '.join(verb.split()))}\b", text, re.M):
        raise ConfigError(f"'{verb}' is not a verb; `imka --help` lists them")
    return text


def cost(what: Optional[Path] = None, **options: Any) -> Result:
    """Time, energy and area of matrices on a chip, or the numbers of the paper (`imka cost`).

    what : a deployed model (.plan), a mapping file, 'paper', or None with network=, shapes= or matrices=.
    options : those of `imka cost --help`, e.g. network="resnet18-in", backend="hermes", chips=1.
    """
    data = run_verb(["cost"], [] if what is None else [what], **options)[1]
    if what == "paper":
        return Result(data, table="values", columns=("name", "published", "computed", "agrees"))
    return Result(data, table="cases", bars=("read_mode", "copies", "latency_seconds"))


def sweep(experiment: Path, set: Optional[dict[str, Any]] = None, **options: Any) -> Result:  # noqa: A002 (as in the program)
    """Runs an experiment, or resumes it, and returns a summary (`imka sweep`).

    experiment : name of a built-in experiment, or a YAML file.
    set : settings to replace, e.g. {"dataset": "letter", "seeds": "0..2"}.
    options : those of `imka sweep --help`, e.g. output="runs/letter", dry_run=True.
    """
    counts = ("done_before", "done", "to_do", "failed", "elsewhere")
    return Result(run_verb(["sweep"], [experiment], set=set, **options)[1], bars=counts)


def report(*paths: Path, **options: Any) -> Result:
    """The figures, verdicts and tables of the records of sweeps (`imka report`).

    paths : folders of sweeps, or files of records.
    options : those of `imka report --help`, e.g. output="page.html", csv="runs.csv".
    """
    return Result(run_verb(["report"], map(existing, paths), **options)[1], table="experiments", bars="verdicts")


def ridge(**options: Any) -> Result:
    """Fits and tests kernel ridge on a data set over seeds (`imka ridge`)."""
    return Result(run_verb(["ridge"], **options)[1])


def gram(**options: Any) -> Result:
    """Error of the approximate Gram matrix over seeds (`imka gram`)."""
    return Result(run_verb(["gram"], **options)[1])


def evaluate(checkpoint: Path, task: Optional[str] = None, *, modes: Union[str, Sequence[str], None] = None,
             seeds: Union[int, str, Sequence[int], None] = None, **options: Any) -> Result:
    """Tests a trained Performer, digitally or with products on an emulated chip (`imka eval`).

    checkpoint : a model written by `imka train`.
    task : expected task of the model; error if the model has a different task.
    modes : what runs on the chip: 'fp32' (nothing), 'attention' (products with omega), 'all' (every static weight) or
        'all-but-last' (all but the last layer). Several are compared with the first.
    seeds : e.g. [0, 1] or "0..9"; each has its own omega and chip.
    options : those of `imka eval --help`, e.g. samples=200, backend="hermes", at="1d", data_dir="data".
    """
    mode = modes if modes is None or isinstance(modes, str) else ",".join(modes)
    data = run_verb(["eval"], checkpoint=existing(checkpoint), task=task, mode=mode, seeds=seeds, **options)[1]
    return Result(data, table="modes", bars=("mode", "accuracy.mean"))
