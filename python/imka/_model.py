"""Networks, run digitally or deployed on a chip."""
from __future__ import annotations

import os
import tempfile
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _imka
from ._errors import ConfigError, DataError, MissingPartError
from ._exec import make_exec
from ._result import Result
from ._verbs import Path, run_verb

Outputs = Union[NDArray, "dict[str, NDArray]"]
_NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_,
          **{f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (8, 16, 32, 64)}}


def _is_torch(model):
    return any(c.__module__.startswith("torch.") and c.__name__ == "Module" for c in type(model).__mro__)


def _export(module, arrays, path):
    """Writes a torch.nn.Module as ONNX, with the first axis of its inputs left open."""
    import torch

    example = tuple(torch.as_tensor(a[:1]) for a in arrays)
    names = [f"input{i}" for i in range(len(arrays))]
    axes = {name: {0: "batch"} for name in [*names, "output"]}
    options = {"input_names": names, "output_names": ["output"], "dynamic_axes": axes, "opset_version": 13}
    training = module.training
    module.eval()
    try:
        torch.onnx.export(module, example, path, dynamo=False, **options)
    except TypeError:  # torch before 2.5 has one exporter
        torch.onnx.export(module, example, path, **options)
    finally:
        module.train(training)


def _list(inputs):
    """One array, or a list of arrays, as a list."""
    return [np.asarray(a) for a in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]


class Model:
    """A network that runs digitally, or a deployed model with its chip.

    path : an ONNX file, a ridge model (.safetensors), or a deployed model (.plan).
    """

    def __init__(self, path: Path, n_jobs: Optional[int] = None):
        if os.fspath(path).endswith(".onnx") and not _imka.has_onnx():
            raise MissingPartError("this build of imka cannot read ONNX models; install libonnx-dev and "
                                   "libprotobuf-dev and build imka again")
        self._path = os.fspath(path)
        self._model = _imka.load_network(self._path, make_exec(n_jobs))

    def run(self, *inputs: Any, seed: int = 0, n_jobs: Optional[int] = None, verbose: int = 0) -> Outputs:
        """The output for these inputs: an array, or a dict if the network has several outputs.

        Inputs are arrays in the order of `inputs`, or one dict by name. seed: of the noise of a chip.
        """
        arrays = self._arrays(inputs)
        outputs = self._model.run(arrays, seed, make_exec(n_jobs, verbose))
        if len(outputs) == 1:
            return outputs[0]
        return {name: array for (name, _, _), array in zip(self._model.outputs, outputs)}

    __call__ = run

    def _arrays(self, inputs):
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            missing = [name for name, _, _ in self._model.inputs if name not in inputs[0]]
            if missing:
                raise DataError(f"no array for the input '{missing[0]}'")
            inputs = [inputs[0][name] for name, _, _ in self._model.inputs]
        types = [_NUMPY[kind] for _, kind, _ in self._model.inputs]
        if len(inputs) != len(types):
            raise ConfigError(f"{len(inputs)} inputs given, the model has {len(types)}")
        return [np.ascontiguousarray(a, dtype=t) for a, t in zip(inputs, types)]

    @property
    def inputs(self) -> dict[str, str]:
        """Types of the inputs by name."""
        return {name: text for name, _, text in self._model.inputs}

    @property
    def outputs(self) -> dict[str, str]:
        """Types of the outputs by name."""
        return {name: text for name, _, text in self._model.outputs}

    @property
    def backend(self) -> str:
        """'fp32' or the name of the chip."""
        return self._model.backend

    def save(self, path: Path) -> None:
        """Writes a deployed model (.plan)."""
        self._model.save(os.fspath(path))

    def __repr__(self):
        return f"<imka.Model on {self.backend}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"


class Deployment(Result):
    """The plan of a deployed model: cores, time, energy. `model` runs it; None if it was only planned."""

    def __init__(self, data, model):
        super().__init__(data, table="core_list", bars=("core", "utilisation"))
        self.__dict__["model"] = model


def _model_file(model, arrays, folder):
    """The file of a model: given, or written from an estimator or a torch module."""
    if _is_torch(model):
        if not arrays:
            raise ConfigError("a torch module needs inputs to be exported: pass calibrate=")
        path = os.path.join(folder, "model.onnx")
        _export(model, arrays, path)
        return path
    if isinstance(model, Model):
        return model._path
    if hasattr(model, "save"):
        path = os.path.join(folder, "model.safetensors")
        model.save(path)
        return path
    return os.fspath(model)


def _write_inputs(arrays, folder, name):
    """The arrays as files, as --calibrate takes them. Floats become float32, as networks expect."""
    paths = []
    for i, array in enumerate(arrays):
        path = os.path.join(folder, f"{name}{i}.npy")
        np.save(path, array.astype(np.float32) if array.dtype == np.float64 else array)
        paths.append(path)
    return paths


def deploy(model: Any, calibrate: Any = None, *, output: Optional[Path] = None, n_jobs: Optional[int] = None,
           verbose: int = 0, **options: Any) -> Deployment:
    """Compiles a model for a chip: places, calibrates and programs it (`imka deploy`).

    model : an ONNX file, a ridge model (file or estimator), or a torch.nn.Module.
    calibrate : inputs with many inferences (an array, or a list in the order of the inputs); None: only plan.
    output : file for the deployed model (.plan).
    options : those of `imka deploy --help`, e.g. backend="hermes", objective="least_time", seed=0, at="1h".
    """
    arrays = [] if calibrate is None else _list(calibrate)
    with tempfile.TemporaryDirectory() as folder:
        source = _model_file(model, arrays, folder)
        plan = output
        if arrays:
            names = list(Model(source).inputs)
            files = _write_inputs(arrays, folder, "calibrate")
            if len(files) != len(names):
                raise ConfigError(f"calibrate: {len(files)} arrays; the model has {len(names)} inputs")
            options["calibrate"] = [f"{n}={f}" for n, f in zip(names, files)] if len(names) > 1 else files
            plan = output or os.path.join(folder, "model.plan")
        data = run_verb(["deploy"], [source], n_jobs=n_jobs, verbose=verbose, output=plan, **options)[1]
        if plan is not None and output is None:
            data["output"] = None
        return Deployment(data, Model(plan) if plan is not None else None)


def run(model: Any, *inputs: Any, backend: str = "fp32", calibrate: Any = None, seed: int = 0,
        n_jobs: Optional[int] = None, verbose: int = 0, **options: Any) -> Outputs:
    """Runs a model on arrays: digitally, or deployed on a chip first (`imka run`).

    model : a file (ONNX, .safetensors, .plan), a Model, a ridge estimator or a torch.nn.Module.
    backend : 'fp32' or a chip; a chip needs calibrate. options : those of deploy.
    """
    if isinstance(model, Model):
        return model.run(*inputs, seed=seed, n_jobs=n_jobs, verbose=verbose)
    if backend != "fp32":
        options = {"seed": seed, **options}
        deployed = deploy(model, calibrate, backend=backend, n_jobs=n_jobs, verbose=verbose, **options)
        if deployed.model is None:
            raise ConfigError("a chip needs calibration inputs: pass calibrate=")
        return deployed.model.run(*inputs, seed=seed, n_jobs=n_jobs, verbose=verbose)
    with tempfile.TemporaryDirectory() as folder:
        arrays = [] if inputs and isinstance(inputs[0], dict) else [np.asarray(a) for a in inputs]
        return Model(_model_file(model, arrays, folder)).run(*inputs, n_jobs=n_jobs, verbose=verbose)
