"""Networks, run digitally or deployed on a chip."""
from __future__ import annotations

import importlib.util
import inspect
import os
import tempfile
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _imka
from ._errors import ConfigError, DataError, MissingPartError, missing_package
from ._exec import dense_array, make_exec, typed_array
from ._pickle import bytes_of, check_stamp, from_bytes, stamp
from ._result import Result
from ._settings import default_seed, field, whole
from ._verbs import Path, existing, path_text, run_verb

Outputs = Union[NDArray[Any], "dict[str, NDArray[Any]]"]
_BACKEND: str = field("backend").default
_SEED = default_seed()
_NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_,
          **{f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (8, 16, 32, 64)}}


def _is_torch(model):
    return any(c.__module__.startswith("torch.") and c.__name__ == "Module" for c in type(model).__mro__)


def _exporter_options(torch, names):
    """Options of torch.onnx.export that make the first axis of the inputs dynamic."""
    axes = {"dynamic_axes": {name: {0: "batch"} for name in [*names, "output"]}, "opset_version": 13}
    if "dynamo" not in inspect.signature(torch.onnx.export).parameters:
        return axes
    if importlib.util.find_spec("onnxscript") is None or not hasattr(torch.export.Dim, "AUTO"):
        return {**axes, "dynamo": False}
    shapes = tuple({0: torch.export.Dim.AUTO} for _ in names)
    return {"dynamo": True, "dynamic_shapes": shapes, "opset_version": 18, "external_data": False, "verbose": False}


def _export(module, arrays, path):
    """Writes a torch.nn.Module as ONNX, with a dynamic first axis of its inputs."""
    import torch

    floats = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    example = tuple(torch.as_tensor(a[:2]) for a in arrays)  # an axis of size 1 would not become dynamic
    example = tuple(t.to(floats) if t.is_floating_point() else t for t in example)  # NumPy's default is float64
    names = [f"input{i}" for i in range(len(arrays))]
    options = _exporter_options(torch, names)
    training = module.training
    module.eval()
    try:
        torch.onnx.export(module, example, path, input_names=names, output_names=["output"], **options)
    except Exception as error:
        if isinstance(error.__cause__, ImportError) and error.__cause__.name == "onnx":
            raise missing_package("the ONNX exporter of PyTorch", "onnx") from error
        if options.get("dynamo") is False:
            raise ConfigError(f"PyTorch cannot export the module: {error}. Its newer exporter may; it needs onnxscript: "
                              "pip install onnxscript") from error
        raise
    finally:
        module.train(training)


def _list(inputs, what):
    """One array, or a list of arrays, as a list."""
    return [dense_array(a, what) for a in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]


def _restored(found, *parts):
    """The Model of a pickle."""
    check_stamp(found, "Model", "Load or deploy the model again")
    name, content = parts
    return from_bytes(content, Model, name)


class Model:
    """A network that runs digitally, or a deployed model with its chip. Pickles hold its file.

    path : an ONNX file, a deployed model (.plan), or a .safetensors file (a ridge model, a trained Performer, or a network
        saved by this class).
    """

    def __init__(self, path: Path, n_jobs: Optional[int] = None):
        path = path_text(path)
        if path.endswith(".onnx") and not _imka.has_onnx():
            raise MissingPartError("this build of imka cannot read ONNX models; install libonnx-dev and "
                                   "libprotobuf-dev and build imka again")
        self._name = os.path.splitext(os.path.basename(path))[0]
        self._model = _imka.load_network(path, make_exec(n_jobs))

    def __reduce__(self):
        name = self._name + self._suffix()
        return _restored, (stamp(), name, bytes_of(self._model.save, name))

    def _suffix(self):
        return ".plan" if self._model.deployed else ".safetensors"

    def run(self, *inputs: Any, seed: int = _SEED, n_jobs: Optional[int] = None, verbose: int = 0) -> Outputs:
        """The output for these inputs: an array, or a dict if the network has several outputs.

        Inputs are arrays in the order of `inputs`, or one dict by name. seed: seed of the noise of a chip.
        """
        arrays = self._arrays(inputs)
        outputs = self._model.run(arrays, whole(seed, "seed"), make_exec(n_jobs, verbose))
        if len(outputs) == 1:
            return outputs[0]
        return {name: array for (name, _, _), array in zip(self._model.outputs, outputs)}

    __call__ = run

    def _ordered(self, arrays):
        """Arrays by name, in the order of the inputs."""
        for name in self.inputs:
            if name not in arrays:
                raise DataError(f"no array for the input '{name}'")
        for name in arrays:
            if name not in self.inputs:
                raise ConfigError(f"the model has no input '{name}'; it has {', '.join(self.inputs)}")
        return [arrays[name] for name in self.inputs]

    def _arrays(self, inputs):
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            inputs = self._ordered(inputs[0])
        wanted = self._model.inputs
        if len(inputs) != len(wanted):
            raise ConfigError(f"{len(inputs)} inputs given, the model has {len(wanted)}")
        return [typed_array(a, f"input '{name}'", _NUMPY[kind]) for a, (name, kind, _) in zip(inputs, wanted)]

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
        """Writes the model to a file for Model and `imka run`: .plan if it is deployed, otherwise .safetensors."""
        path = path_text(path)
        if not path.endswith(self._suffix()):
            raise ConfigError(f"{path}: expected a name that ends with {self._suffix()}")
        self._model.save(path)

    def __repr__(self):
        return f"<imka.Model on {self.backend}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"


class Deployment(Result):
    """The plan of a deployed model: cores, time, energy. `model` runs it; None if it was only planned."""

    model: Optional[Model]

    def __init__(self, data, model):
        super().__init__(data, table="core_list", bars=("core", "utilisation"))
        self.__dict__["model"] = model


def _model_file(model, arrays, folder):
    """The file of a model: given, or written from an estimator or a torch module."""
    if _is_torch(model):
        if not arrays:
            raise ConfigError("a torch module needs inputs to be exported: pass an array or a list")
        path = os.path.join(folder, "model.onnx")
        _export(model, arrays, path)
        return path
    if isinstance(model, Model) and model._model.deployed:
        raise ConfigError(f"the model is already deployed on {model.backend}")
    if hasattr(model, "save"):
        path = os.path.join(folder, f"{getattr(model, '_name', 'model')}.safetensors")
        model.save(path)
        return path
    return existing(model, "a file name, a Model, a ridge estimator or a torch.nn.Module")


def _write_inputs(arrays, folder, name):
    """Writes the arrays to files for --calibrate. float64 becomes float32, which networks expect."""
    paths = []
    for i, array in enumerate(arrays):
        path = os.path.join(folder, f"{name}{i}.npy")
        np.save(path, array.astype(np.float32) if array.dtype == np.float64 else array)
        paths.append(path)
    return paths


def deploy(model: Any, calibrate: Any = None, *, output: Optional[Path] = None, n_jobs: Optional[int] = None,
           verbose: int = 0, **options: Any) -> Deployment:
    """Compiles a model for a chip: places, calibrates and programs it (`imka deploy`).

    model : a file (ONNX or .safetensors), a Model, a ridge estimator, or a torch.nn.Module.
    calibrate : inputs with many inferences: an array, a list in the order of the inputs, or a dict by name; None: plan
        only.
    output : file for the deployed model (.plan).
    options : those of `imka deploy --help`, e.g. backend="hermes", objective="least_time", seed=0, at="1h".
    """
    by_name = isinstance(calibrate, dict)
    arrays = [] if calibrate is None or by_name else _list(calibrate, "calibrate")
    with tempfile.TemporaryDirectory() as folder:
        source = _model_file(model, arrays, folder)
        if by_name:
            arrays = _list(Model(source)._ordered(calibrate), "calibrate")
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


def run(model: Any, *inputs: Any, backend: str = _BACKEND, calibrate: Any = None, seed: int = _SEED,
        n_jobs: Optional[int] = None, verbose: int = 0, **options: Any) -> Outputs:
    """Runs a model on arrays: digitally, or deployed on a chip first (`imka run`).

    model : a file (ONNX, .safetensors, .plan), a Model, a ridge estimator or a torch.nn.Module.
    backend : 'fp32' or a chip; a chip needs calibrate. options : those of deploy.
    seed : seed of the chip and of the noise of its products.
    """
    if backend != "fp32":
        if calibrate is None:
            raise ConfigError("a chip needs calibration inputs: pass calibrate=")
        options = {"seed": seed, **options}
        deployed = deploy(model, calibrate, backend=backend, n_jobs=n_jobs, verbose=verbose, **options)
        return deployed.model.run(*inputs, seed=seed, n_jobs=n_jobs, verbose=verbose)
    unused = ["calibrate"] * (calibrate is not None) + list(options)
    if unused:
        raise ConfigError(f"{unused[0]} has no effect: the backend is not a chip (such as backend='hermes')")
    if not isinstance(model, Model):
        with tempfile.TemporaryDirectory() as folder:
            arrays = [] if inputs and isinstance(inputs[0], dict) else _list(inputs, "inputs")
            model = Model(_model_file(model, arrays, folder))
    return model.run(*inputs, seed=seed, n_jobs=n_jobs, verbose=verbose)
