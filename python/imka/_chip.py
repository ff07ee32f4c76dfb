"""Chips: constants, programming, ageing, products, causes of the error."""
from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _imka
from ._errors import ConfigError, DataError
from ._exec import make_exec, typed_array
from ._pickle import check_stamp, pack_chip, stamp, with_chip
from ._result import Result
from ._settings import default_seed, fields, number, settings_of, text_of, whole
from ._verbs import Path, path_text, run_verb

_COMPENSATION = next(p.default for p in fields("build") if p.name == "compensation")


def _rows(x, what):
    array = typed_array(x, what)
    if array.ndim != 2:
        raise DataError(f"{what}: {array.ndim} dimensions; expected a matrix")
    if not np.isfinite(array).all():
        raise DataError(f"{what}: NaN, infinity or a number too large for float32; expected finite numbers")
    return array


def make_spec(name, changes):
    """The constants of a chip, with changes as a dict or text."""
    name = path_text(name)
    if name == "fp32":
        raise ConfigError(f"'fp32' is the processor, not a chip; known chips: {', '.join(_imka.chip_names())}, or a file "
                          "(NAME.yaml)")
    return _imka.make_chip(name, text_of(changes or ""))


def count_of(number, what):
    """'1 core', '2 cores'."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _restored(found, *parts):
    """The Chip or ProgrammedChip of a pickle."""
    check_stamp(found, "a chip", "Create the chip again")
    if len(parts) == 1:
        return ProgrammedChip(with_chip(parts[0], lambda packed: _imka.load_programmed(packed, make_exec())))
    name, changes, wanted = parts
    chip = Chip(name, changes)
    if chip.hash != wanted:
        raise DataError(f"the constants of the chip '{name}' have changed since it was pickled: their hash is "
                        f"{chip.hash[:12]}, it was {wanted[:12]}")
    return chip


class Chip:
    """An emulated chip.

    name : a preset (imka.Chip.names()) or a YAML file.
    set : changed constants, e.g. {"core.adc_noise": 2}.
    """

    def __init__(self, name: Path, set: Union[dict[str, Any], str, None] = None):  # noqa: A002 (named as in the program)
        self._name, self._set = path_text(name), text_of(set or "")
        self._spec = make_spec(self._name, self._set)

    def __reduce__(self):
        return _restored, (stamp(), self._name, self._set, self.hash)

    @staticmethod
    def names() -> list[str]:
        """The presets."""
        return _imka.chip_names()

    @property
    def name(self) -> str:
        """Name of the chip."""
        return self._spec.name

    @property
    def hash(self) -> str:
        """Hash of all constants."""
        return self._spec.hash

    @property
    def cores(self) -> int:
        """Cores of all chips."""
        return self._spec.cores

    def constants(self) -> Result:
        """Every constant with value, unit, source and help."""
        return Result({"constants": self._spec.constants()}, table="constants", columns=("name", "value", "unit"))

    def to_yaml(self) -> str:
        """The constants as text of a chip file (YAML)."""
        return self._spec.text()

    def program(self, weights: ArrayLike, inputs: ArrayLike, seed: Optional[int] = None, n_jobs: Optional[int] = None,
                verbose: int = 0, **settings: Any) -> ProgrammedChip:
        """Calibrates the chip on the inputs, programs the weights, and returns a ProgrammedChip.

        weights : inputs x outputs, as in x @ weights.
        inputs : rows like those that will be multiplied; calibration draws from them.
        seed : seed of the devices; default 0.
        settings : input_range, programming, output_calibration, read_seconds, compensation, replicas, ...
        """
        built = self._spec.program(_rows(weights, "weights"), _rows(inputs, "inputs"), settings_of(settings, "build"),
                                   default_seed() if seed is None else whole(seed, "seed"), make_exec(n_jobs, verbose))
        return ProgrammedChip(built)

    def explain(self, **options: Any) -> Result:
        """Share of the error that each non-ideality causes (`imka chip explain --help` lists the options)."""
        return Result(self._run("explain", options), table="nonidealities", bars=("name", "saved_share.mean"))

    def measure(self, **options: Any) -> Result:
        """Error of products in every state of the chip (`imka chip mvm --help` lists the options)."""
        return Result(self._run("mvm", options), table="states", bars=("state", "relative_error.mean"))

    def _run(self, verb, options):
        changes = self._set.split(",") if self._set else None
        return run_verb(["chip", verb], backend=self._name, chip_set=changes, **options)[1]

    def __repr__(self):
        rows, cols = self._spec.core_shape
        return f"<imka.Chip {self.name}: {count_of(self.cores, 'core')} of {rows} x {cols}, {self.hash[:12]}>"


class ProgrammedChip:
    """A matrix on a chip, created by Chip.program. age() returns a new object and leaves this one unchanged."""

    def __init__(self, built):
        self._built = built

    def mvm(self, x: ArrayLike, seed: Optional[int] = None, first: int = 0, n_jobs: Optional[int] = None,
            verbose: int = 0) -> NDArray[np.float32]:
        """x @ weights on the chip, float32.

        Row r of x is product number first + r. The noise is a function of this number and of seed (None: derived from
        the seed of the chip).
        """
        seed = None if seed is None else whole(seed, "seed")
        return self._built.mvm(_rows(x, "x"), seed, whole(first, "first"), make_exec(n_jobs, verbose))

    def age(self, at: Union[float, str], compensation: str = _COMPENSATION,
            n_jobs: Optional[int] = None) -> ProgrammedChip:
        """The chip at a time after programming (seconds, or text such as '1h', '7d'), with drift compensation."""
        seconds = _imka.parse_duration(at) if isinstance(at, str) else number(at, "at")
        return ProgrammedChip(self._built.age(seconds, text_of(compensation), make_exec(n_jobs)))

    @property
    def state(self) -> str:
        """programmed, aged or compensated."""
        return self._built.state

    @property
    def seconds(self) -> float:
        """Time since programming."""
        return self._built.seconds

    @property
    def seed(self) -> int:
        """Seed of the devices."""
        return self._built.seed

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs of the matrix."""
        return self._built.shape

    @property
    def cores(self) -> int:
        """Cores that hold the matrix."""
        return self._built.cores

    def __reduce__(self):
        """Pickles contain the file of the chip."""
        return _restored, (stamp(), pack_chip(self._built.save))

    def save(self, path: Path) -> None:
        """Writes the chip and every device to a file; `imka chip mvm --load` reads it."""
        if self._built.corrected:
            raise DataError("a chip with range_scaling or lost_rows has corrections that its file cannot hold; pickle it")
        self._built.save(path_text(path))

    @classmethod
    def load(cls, path: Path, n_jobs: Optional[int] = None) -> ProgrammedChip:
        """Loads a chip from a file."""
        return cls(_imka.load_programmed((path_text(path), [], 0), make_exec(n_jobs)))

    def __repr__(self):
        inputs, outputs = self.shape
        return (f"<imka.ProgrammedChip {self._built.name}: {inputs} x {outputs} on {count_of(self.cores, 'core')}, "
                f"{self.state} at {self.seconds:g} s>")
