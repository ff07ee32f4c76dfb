"""The verbs of the program as functions. Options have the names of the program, with '_' for '-'."""
from __future__ import annotations

import json
import os
from typing import Any, Optional, Union

from . import _imka
from ._errors import ConfigError, DataError
from ._exec import make_exec
from ._result import Result
from ._settings import text_of


Path = Union[str, os.PathLike]


def _option(name, value):
    """One option as arguments. Lists repeat it; a dict is a list of KEY=VALUE."""
    if value is None or value is False:
        return []
    flag = "--" + name.replace("_", "-")
    if isinstance(value, dict):
        return [f"{flag}={k}={text_of(v)}" for k, v in value.items()]
    if isinstance(value, (list, tuple)) and name not in ("seeds", "seed"):
        return [f"{flag}={os.fspath(v) if hasattr(v, '__fspath__') else text_of(v)}" for v in value]
    return [f"{flag}={os.fspath(value) if hasattr(value, '__fspath__') else text_of(value)}"]


def run_verb(words, positional=(), n_jobs=None, verbose=0, data_dir=None, **options):
    """Exit code and JSON document of `imka WORDS POSITIONAL --json`. Errors are raised."""
    arguments = [*words, *(os.fspath(p) for p in positional), "--json"]
    for name, value in options.items():
        arguments += _option(name, value)
    folder = os.fspath(data_dir) if data_dir is not None else os.environ.get("IMKA_DATA", "")
    code, out, messages = _imka.command(arguments, folder, make_exec(n_jobs, verbose))
    if code == 2:
        raise ConfigError(messages.strip().removeprefix("imka: "))
    try:
        return code, json.loads(out)
    except ValueError:
        raise DataError(f"imka {' '.join(words)}: {messages.strip() or 'no result'}") from None


def command(verb: str, *positional: Path, **options: Any) -> Result:
    """Runs any verb of the program that has --json, and returns its document.

    command("gram", dataset="ringnorm", sampler="sorf", seeds="0..4") is
    `imka gram --dataset ringnorm --sampler sorf --seeds 0..4 --json`. Words of a verb are separated by blanks:
    command("chip info"). n_jobs, verbose and data_dir are as in all functions.
    """
    return Result(run_verb(verb.split(), positional, **options)[1])


def help_of(verb: str) -> str:
    """The options of a verb: the text of `imka VERB --help`."""
    return _imka.command([*verb.split(), "--help"], "", make_exec(1))[1]


def cost(what: Optional[Path] = None, **options: Any) -> Result:
    """Time, energy and area of matrices on a chip, or the numbers of the paper (`imka cost`).

    what : a deployed model (.plan), a mapping file, 'paper', or None with network=, shapes= or matrices=.
    options : those of `imka cost --help`, e.g. network="resnet18-in", backend="hermes", chips=1.
    """
    data = run_verb(["cost"], [] if what is None else [what], **options)[1]
    if what == "paper":
        return Result(data, table="values")
    return Result(data, table="cases", bars=("read_mode", "latency_seconds"))


def sweep(experiment: Path, set: Optional[dict] = None, **options: Any) -> Result:  # noqa: A002 (as in the program)
    """Runs an experiment, or resumes it, and returns a summary (`imka sweep`).

    experiment : name of a built-in experiment, or a YAML file.
    set : settings to replace, e.g. {"dataset": "letter", "seeds": "0..2"}.
    options : those of `imka sweep --help`, e.g. output="runs/letter", dry_run=True.
    """
    return Result(run_verb(["sweep"], [experiment], set=set, **options)[1])


def report(*paths: Path, **options: Any) -> Result:
    """The figures, verdicts and tables of the records of sweeps (`imka report`).

    paths : folders of sweeps, or files of records.
    options : those of `imka report --help`, e.g. output="page.html", csv="runs.csv".
    """
    return Result(run_verb(["report"], paths, **options)[1], table="experiments")


def ridge(**options: Any) -> Result:
    """Fits and tests kernel ridge on a data set over seeds (`imka ridge`)."""
    return Result(run_verb(["ridge"], **options)[1])


def gram(**options: Any) -> Result:
    """Error of the approximate Gram matrix over seeds (`imka gram`)."""
    return Result(run_verb(["gram"], **options)[1])
