"""Chips, networks, data sets, verbs and their results."""
import json
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

import imka


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    return rng.normal(size=(70, 40)), rng.normal(size=(600, 70))


def error(y, exact):
    return np.linalg.norm(y - exact) / np.linalg.norm(exact)


def test_a_programmed_chip(matrix, tmp_path):
    weights, x = matrix
    chip = imka.Chip("hermes").program(weights, x, seed=3)
    y = chip.mvm(x)
    assert 0.01 < error(y, x @ weights) < 0.2
    assert y.dtype == np.float32 and chip.shape == (70, 40) and chip.state == "programmed" and chip.seed == 3
    assert np.array_equal(y, imka.Chip("hermes").program(weights, x, seed=3, n_jobs=1).mvm(x))
    assert np.array_equal(chip.mvm(x[5:9], first=5), y[5:9])
    assert not np.array_equal(chip.mvm(x, seed=1), y)
    chip.save(tmp_path / "chip.safetensors")
    assert np.array_equal(imka.ProgrammedChip.load(tmp_path / "chip.safetensors").mvm(x), y)
    assert np.array_equal(pickle.loads(pickle.dumps(chip)).mvm(x), y)
    assert pickle.loads(pickle.dumps(imka.Chip("hermes", set={"core.adc_noise": 2}))).hash != imka.Chip("hermes").hash


def test_age_and_compensation(matrix):
    weights, x = matrix
    chip = imka.Chip("hermes").program(weights, x)
    aged = chip.age("1d")
    better = chip.age("1d", compensation="outputs")
    assert (chip.state, aged.state, better.state) == ("programmed", "aged", "compensated")
    assert aged.seconds == 86400
    errors = [error(c.mvm(x), x @ weights) for c in (chip, better, aged)]
    assert errors == sorted(errors)
    with pytest.raises(ValueError, match="compensation"):
        chip.age(5, compensation="globl")
    with pytest.raises(ValueError):
        aged.age("1h")


def test_constants_of_a_chip(matrix):
    weights, x = matrix
    quiet = imka.Chip("ideal").program(weights, x)
    assert error(quiet.mvm(x), x @ weights) < 2e-2
    noisy = imka.Chip("hermes", set={"core.adc_noise": 50})
    assert noisy.hash != imka.Chip("hermes").hash
    errors = [error(c.program(weights, x).mvm(x), x @ weights) for c in (imka.Chip("hermes"), noisy)]
    assert errors[0] < errors[1]
    assert "hermes" in imka.Chip.names() and "g_max" in imka.Chip("hermes").to_yaml()
    with pytest.raises(imka.ConfigError, match="adc_nose"):
        imka.Chip("hermes", set={"core.adc_nose": 1})
    with pytest.raises(imka.FileError):
        imka.Chip("missing.yaml")


@pytest.mark.parametrize("weights, x, message", [
    (np.ones((3, 2)), np.ones((5, 4)), "4 columns, the weights 3 rows"),
    (np.ones(3), np.ones((5, 3)), "weights: 1 dimensions"),
    (np.full((3, 2), np.nan), np.ones((5, 3)), "weights: NaN"),
])
def test_bad_matrices(weights, x, message):
    with pytest.raises(imka.DataError, match=message):
        imka.Chip("ideal").program(weights, x)


def test_settings_of_a_chip_are_checked(matrix):
    with pytest.raises(imka.ConfigError, match="unknown setting 'replica'; did you mean 'replicas'"):
        imka.Chip("hermes").program(*matrix, replica=2)


def test_explain():
    result = imka.Chip("hermes").explain(rows=20, cols=20, inputs=30, seeds=[0, 1])
    assert {"name", "alone_error"} <= set(result.nonidealities[0])
    assert result.seeds == [0, 1]


def test_dlpack_input(matrix):
    torch = pytest.importorskip("torch")
    weights, x = matrix
    chip = imka.Chip("ideal").program(weights, x)
    assert np.array_equal(chip.mvm(torch.as_tensor(x)), chip.mvm(x))


MODEL = ROOT / "tests/models"


def onnx_model():
    """A small model of the repository with one float input."""
    if not imka._imka.has_onnx():
        pytest.skip("this build cannot read ONNX")
    for path in sorted(MODEL.glob("**/*.onnx")):
        model = imka.Model(path)
        if len(model.inputs) == 1 and list(model.inputs.values())[0].startswith("f32"):
            return path, model
    pytest.skip("no model")


def shape_of(model, batch):
    text = list(model.inputs.values())[0]
    return [int(s) if s.strip().isdigit() else batch for s in text[text.index("[") + 1:-1].split(",")]


def test_networks(tmp_path):
    path, model = onnx_model()
    x = np.random.default_rng(0).normal(size=shape_of(model, 4))
    y = model.run(x)
    assert np.array_equal(imka.run(path, x), y)
    assert np.array_equal(model.run({name: x for name in model.inputs}), y)
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    imka.command("run", path, input=tmp_path / "x.npy", output=tmp_path / "y.npy")
    assert np.array_equal(np.load(tmp_path / "y.npy"), y)
    with pytest.raises(imka.ConfigError, match="2 inputs given, the model has 1"):
        model.run(x, x)


def test_deployed_ridge(tmp_path, ringnorm):
    pytest.importorskip("sklearn")
    ridge = imka.KernelRidgeClassifier(log_ratio=2, truncation=3.0).fit(ringnorm.x_train, ringnorm.y_train)
    done = imka.deploy(ridge, ringnorm.x_train, backend="hermes", output=tmp_path / "ridge.plan", seed=1)
    assert done.cores == 1 and done.model.backend == "hermes" and "latency_seconds" in done
    classes = done.model.run(ringnorm.x_test)["class"]
    assert np.mean(classes == ringnorm.y_test) > 0.95
    again = imka.run(tmp_path / "ridge.plan", ringnorm.x_test)
    assert np.array_equal(again["class"], classes)
    at_once = imka.run(ridge, ringnorm.x_test, backend="hermes", calibrate=ringnorm.x_train, chip_set=None, seed=1)
    assert np.mean(at_once["class"] == ringnorm.y_test) > 0.95
    assert imka.deploy(ridge).model is None  # a plan only
    assert imka.cost(tmp_path / "ridge.plan").cases[0]["cores"] == 1
    with pytest.raises(imka.ConfigError, match="calibrate"):
        imka.run(ridge, ringnorm.x_test, backend="hermes")


def test_deployed_torch_module():
    torch = pytest.importorskip("torch")
    if not imka._imka.has_onnx():
        pytest.skip("this build cannot read ONNX")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    x = np.random.default_rng(0).normal(size=(300, 16)).astype(np.float32)
    with torch.no_grad():
        want = module(torch.as_tensor(x)).numpy()
    np.testing.assert_allclose(imka.run(module, x), want, atol=1e-5)
    deployed = imka.deploy(module, x, backend="hermes")
    assert 0.001 < error(deployed.model.run(x), want) < 0.3
    assert module.training


def test_data_sets(tmp_path):
    data = imka.datasets.load("ringnorm", train_rows=50, test_rows=20, standardize=False)
    assert data.x_train.shape == (50, 20) and data.y_test.shape == (20,) and len(data.classes) == 2
    numbers = imka.datasets.load("friedman1", task="regression")
    assert numbers.y_train.dtype == np.float64 and len(numbers.classes) == 0
    (tmp_path / "a.csv").write_text("a,b,y\n" + "".join(f"{i},{-i},{'up' if i % 2 else 'down'}\n" for i in range(40)))
    rows = imka.datasets.load(tmp_path / "a.csv", label_column="y")
    assert list(rows.classes) == ["down", "up"] and rows.x_train.shape == (20, 2)
    with pytest.raises(imka.MissingPartError, match="fetch"):
        imka.datasets.load("letter", data_dir=tmp_path)
    with pytest.raises(imka.ConfigError, match="unknown setting 'label_colum'; did you mean 'label_column'"):
        imka.datasets.load("ringnorm", label_colum=1)
    assert "letter" in {s["name"] for s in imka.datasets.available().sets}
    assert imka.datasets.info("ringnorm").d == 20


def test_sweep_and_report(tmp_path):
    done = imka.sweep("smoke", output=tmp_path / "runs", set={"dataset": "ringnorm", "seeds": "0..1"}, verbose=0)
    assert done.failed == 0
    report = imka.report(tmp_path / "runs", csv=tmp_path / "runs.csv")
    assert report.experiments and (tmp_path / "runs.csv").exists()
    with pytest.raises(imka.Error, match="no records"):
        (tmp_path / "empty").mkdir()
        imka.report(tmp_path / "empty")


def test_results():
    result = imka.cost(network="ks")
    assert result["name"] == result.name == "ks" and "cases" in result
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert "backend" in repr(result) and len(repr(result)) < 500
    with pytest.raises(AttributeError, match="no 'nothing'; it has name"):
        result.nothing
    with pytest.raises(imka.ConfigError, match="unknown option '--netwrk'"):
        imka.cost(netwrk="ks")
    assert "--network" in imka.help_of("cost")


def test_results_as_tables_and_pictures():
    pandas = pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = imka.cost(network="ks")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 4
    assert len(result.plot().patches) == 4
    over_seeds = imka.gram(dataset="ringnorm", log_ratio=0, seeds="0..2")
    assert list(over_seeds.plot().lines[0].get_xdata()) == [0, 1, 2]
    assert len(over_seeds.to_pandas()) == 1
    with pytest.raises(ValueError, match="nothing to plot"):
        imka.datasets.info("ringnorm").plot()


def test_stubs_name_every_function():
    stub = (pathlib.Path(imka.__file__).parent / "_imka.pyi").read_text()
    for name in dir(imka._imka):
        if not name.startswith("_"):
            assert name in stub
    assert "std::" not in stub


@pytest.mark.parametrize("name", ["RandomFeatures", "Chip", "cost", "deploy", "run", "sweep", "report", "datasets"])
def test_everything_public_is_documented(name):
    if name == "RandomFeatures":
        pytest.importorskip("sklearn")
    assert len(getattr(imka, name).__doc__) > 20


def test_import_is_quick():
    code = "import numpy, time; t = time.perf_counter(); import imka; print(time.perf_counter() - t)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(out) < 2.0


def test_the_example_prints_a_ratio():
    pytest.importorskip("sklearn")
    script = ROOT / "examples/rbf_sampler_speedup.py"
    out = subprocess.run([sys.executable, script, "2000"], capture_output=True, text=True, check=True).stdout
    assert "speed-up: " in out and out.count("Gram error") == 2
