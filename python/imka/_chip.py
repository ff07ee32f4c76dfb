"""Chips: constants, programming, ageing, products, causes of the error."""
from __future__ import annotations

import os
import tempfile
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _imka
from ._errors import DataError
from ._exec import make_exec
from ._result import Result
from ._settings import default_seed, fields, settings_of, text_of
from ._verbs import Path, run_verb

_COMPENSATION = next(p.default for p in fields("build") if p.name == "compensation")


def _rows(x, what):
    array = np.ascontiguousarray(x, dtype=np.float32)
    if array.ndim != 2:
        raise DataError(f"{what}: {array.ndim} dimensions; expected a matrix")
    if not np.isfinite(array).all():
        raise DataError(f"{what}: NaN or infinity; expected finite numbers")
    return array


def _restored(content, factors, lost):
    """The ProgrammedChip of a pickle."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "chip")
        with open(path, "wb") as file:
            file.write(content)
        return ProgrammedChip(_imka.load_programmed((path, factors, lost), make_exec()))


class Chip:
    """An emulated chip.

    name : a preset (imka.Chip.names()) or a YAML file.
    set : changed constants, e.g. {"core.adc_noise": 2}.
    """

    def __init__(self, name: Path, set: Union[dict, str, None] = None):  # noqa: A002 (named as in the program)
        self._name, self._set = os.fspath(name), text_of(set or "")
        self._spec = _imka.make_chip(self._name, self._set)

    def __reduce__(self):
        return Chip, (self._name, self._set)

    @staticmethod
    def names() -> list[str]:
        """The presets."""
        return _imka.chip_names()

    @property
    def name(self) -> str:
        """Its name."""
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
        return Result({"constants": self._spec.constants()}, table="constants")

    def to_yaml(self) -> str:
        """The text of its file."""
        return self._spec.text()

    def program(self, weights: ArrayLike, inputs: ArrayLike, seed: Optional[int] = None, n_jobs: Optional[int] = None,
                verbose: int = 0, **settings: Any) -> ProgrammedChip:
        """Calibrates the chip on the inputs, programs the weights, and returns a ProgrammedChip.

        weights : inputs x outputs, as in x @ weights.
        inputs : rows like those that will be multiplied; calibration draws from them.
        seed : of the devices; default 0.
        settings : input_range, programming, output_calibration, read_seconds, compensation, replicas, ...
        """
        built = self._spec.program(_rows(weights, "weights"), _rows(inputs, "inputs"), settings_of(settings, "build"),
                                   default_seed() if seed is None else seed, make_exec(n_jobs, verbose))
        return ProgrammedChip(built)

    def explain(self, **options: Any) -> Result:
        """How much of the error each non-ideality causes (`imka chip explain --help` lists the options)."""
        return Result(self._run("explain", options), table="nonidealities", bars=("name", "saved_share.mean"))

    def measure(self, **options: Any) -> Result:
        """Error of products in every state of the chip (`imka chip mvm --help` lists the options)."""
        return Result(self._run("mvm", options), table="states", bars=("state", "relative_error.mean"))

    def _run(self, verb, options):
        changes = self._set.split(",") if self._set else None
        return run_verb(["chip", verb], backend=self._name, chip_set=changes, **options)[1]

    def __repr__(self):
        rows, cols = self._spec.core_shape
        return f"<imka.Chip {self.name}: {self.cores} cores of {rows} x {cols}, {self.hash[:12]}>"


class ProgrammedChip:
    """A matrix on a chip. Ageing returns a new value; this one stays as it is."""

    def __init__(self, built):
        self._built = built

    def mvm(self, x: ArrayLike, seed: Optional[int] = None, first: int = 0, n_jobs: Optional[int] = None,
            verbose: int = 0) -> NDArray[np.float32]:
        """x @ weights on the chip, float32.

        Row r of x is product number first + r. The noise is a function of this number and of seed (None: derived from
        the seed of the chip).
        """
        return self._built.mvm(_rows(x, "x"), seed, first, make_exec(n_jobs, verbose))

    def age(self, at: Union[float, str], compensation: str = _COMPENSATION,
            n_jobs: Optional[int] = None) -> ProgrammedChip:
        """The chip at a time after programming (seconds, or text such as '1h', '7d'), with drift compensation."""
        seconds = _imka.parse_duration(at) if isinstance(at, str) else float(at)
        return ProgrammedChip(self._built.age(seconds, compensation, make_exec(n_jobs)))

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
        """Pickles hold the file of the chip."""
        with tempfile.TemporaryDirectory() as folder:
            path, factors, lost = self._built.save(os.path.join(folder, "chip"))
            with open(path, "rb") as file:
                return _restored, (file.read(), list(factors), lost)

    def save(self, path: Path) -> None:
        """Writes the chip and every device to a file; `imka chip mvm --load` reads it."""
        _, factors, lost = self._built.save(os.fspath(path))
        if len(factors) or lost:
            raise DataError("a chip with range_scaling or lost_rows has corrections that its file cannot hold")

    @classmethod
    def load(cls, path: Path, n_jobs: Optional[int] = None) -> ProgrammedChip:
        """The chip in a file."""
        return cls(_imka.load_programmed((os.fspath(path), [], 0), make_exec(n_jobs)))

    def __repr__(self):
        inputs, outputs = self.shape
        return (f"<imka.ProgrammedChip {self._built.name}: {inputs} x {outputs} on {self.cores} cores, {self.state} "
                f"at {self.seconds:g} s>")
