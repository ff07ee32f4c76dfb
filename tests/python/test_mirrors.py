"""Chips, networks, data sets, verbs and their results."""
import importlib.util
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


def test_a_chip_whose_file_would_lack_something_is_not_written(matrix, tmp_path):
    weights, x = matrix
    for settings in ({"lost_rows": 3}, {"range_scaling": True}):
        chip = imka.Chip("hermes").program(weights, x, **settings)
        with pytest.raises(imka.DataError, match="corrections that its file cannot hold; pickle it"):
            chip.save(tmp_path / "chip.safetensors")
        assert not list(tmp_path.iterdir())
        assert np.array_equal(pickle.loads(pickle.dumps(chip)).mvm(x), chip.mvm(x))


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
    assert "70 x 40 on 1 core, programmed" in repr(quiet) and "64 cores of 256 x 256" in repr(imka.Chip("hermes"))
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


def programmed():
    return imka.Chip("ideal").program(np.eye(4), np.eye(4))


BAD_CALLS = [
    (lambda: imka.Chip("hermes").program(np.eye(4), np.eye(4), seed=-1), "seed: -1; expected an integer from 0"),
    (lambda: imka.Chip("fp32"), "'fp32' is the processor, not a chip; known chips: ideal, hermes"),
    (lambda: imka.Chip("hermes").program(np.eye(4), np.eye(4), programming=None), "programming: None; expected statistical"),
    (lambda: programmed().mvm(np.eye(4), seed=1.5), "seed: 1.5"),
    (lambda: programmed().mvm(np.eye(4), first=-1), "first: -1"),
    (lambda: programmed().mvm(np.eye(4) + 1j), "x: elements of type complex128; expected real numbers"),
    (lambda: programmed().mvm([["a"] * 4]), "x: elements of type <U1; expected real numbers"),
    (lambda: programmed().mvm(np.full((2, 4), 1e60)), "x: NaN, infinity or a number too large for float32"),
    (lambda: programmed().mvm(np.eye(3)), "inputs of length 3; the chip holds a matrix of 4 inputs"),
    (lambda: programmed().age(1, compensation=None), "not a known compensation"),
    (lambda: programmed().age(None), "at: None; expected a number"),
    (lambda: imka.attention.exact_attention(*3 * [np.eye(4)], scale="a"), "scale: 'a'; expected a number"),
    (lambda: imka.datasets.load("ringnorm", train_rows=-1), "train_rows: -1"),
    (lambda: imka.datasets.load("ringnorm", standardize="no"), "standardize: 'no'; expected True or False"),
    (lambda: imka.help_of("nonsense"), "'nonsense' is not a verb"),
    (lambda: imka.help_of("chip nonsense"), "'chip nonsense' is not a verb"),
    (lambda: imka.command(""), "no verb"),
    (lambda: imka.cost(network="ks", n_jobs="2"), "n_jobs: '2'; expected a positive integer"),
]


@pytest.mark.parametrize("call, message", BAD_CALLS, ids=[m for _, m in BAD_CALLS])
def test_bad_arguments_are_value_errors_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message) as raised:
        call()
    assert isinstance(raised.value, imka.Error)


def test_sparse_rows_are_refused_with_advice():
    sparse = pytest.importorskip("scipy.sparse")
    rows = sparse.csr_matrix(np.eye(4))
    for call in (lambda: programmed().mvm(rows), lambda: imka.attention.exact_attention(rows, rows, rows),
                 lambda: imka.deploy(CHECKPOINT, rows)):
        with pytest.raises(imka.DataError, match="a sparse matrix; call its toarray"):
            call()


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
CHECKPOINT = ROOT / "tests/hostile/performer_tiny.safetensors"


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
    with pytest.raises(imka.ConfigError, match="seed: -1"):
        model.run(x, seed=-1)


def test_a_build_without_onnx_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(imka._imka, "has_onnx", lambda: False)
    with pytest.raises(imka.MissingPartError, match="cannot read ONNX models; install libonnx-dev and libprotobuf-dev and build"):
        imka.Model("model.onnx")


def test_token_numbers_are_integers():
    model = imka.Model(CHECKPOINT)
    assert [text[:2] for text in model.inputs.values()] == ["u8", "i6"]
    tokens, lengths = np.ones((2, 64), dtype=int), [5, 64]
    assert np.array_equal(model.run(tokens.astype(float), lengths), model.run(tokens, lengths))
    named = {"lengths": lengths, "tokens": tokens}
    assert np.array_equal(model.run(named), model.run(tokens, lengths))
    with pytest.raises(imka.DataError, match="no array for the input 'lengths'"):
        model.run({"tokens": tokens})
    with pytest.raises(imka.ConfigError, match="the model has no input 'mask'; it has tokens, lengths"):
        model.run({**named, "mask": tokens})
    for wrong in (tokens + 0.5, tokens + 256, tokens - 2, np.full(tokens.shape, np.nan)):
        with pytest.raises(imka.DataError, match="input 'tokens': some numbers are not integers of type uint8"):
            model.run(wrong, lengths)


def test_deployed_ridge(tmp_path, ringnorm):
    pytest.importorskip("sklearn")
    ridge = imka.KernelRidgeClassifier(log_ratio=2, truncation=3.0).fit(ringnorm.x_train, ringnorm.y_train)
    done = imka.deploy(ridge, ringnorm.x_train, backend="hermes", output=tmp_path / "ridge.plan", seed=1)
    assert done.cores == 1 and done.model.backend == "hermes" and "latency_seconds" in done
    classes = done.model.run(ringnorm.x_test)["class"]
    assert np.mean(classes == ringnorm.y_test) > 0.95
    again = imka.run(tmp_path / "ridge.plan", ringnorm.x_test)
    assert np.array_equal(again["class"], classes)
    noise = [imka.run(tmp_path / "ridge.plan", ringnorm.x_test, seed=seed)["scores"] for seed in (0, 3)]
    for seed, scores in zip((0, 3), noise):
        assert np.array_equal(scores, done.model.run(ringnorm.x_test, seed=seed)["scores"])
        assert np.array_equal(scores, imka.run(done.model, ringnorm.x_test, seed=seed)["scores"])
    assert not np.array_equal(*noise)
    at_once = imka.run(ridge, ringnorm.x_test, backend="hermes", calibrate=ringnorm.x_train, chip_set=None, seed=1)
    assert np.mean(at_once["class"] == ringnorm.y_test) > 0.95
    assert imka.deploy(ridge).model is None  # a plan only
    assert imka.cost(tmp_path / "ridge.plan").cases[0]["cores"] == 1
    with pytest.raises(imka.ConfigError, match="pass calibrate="):
        imka.run(ridge, ringnorm.x_test, backend="hermes")
    for option in ({"calibrate": ringnorm.x_train}, {"at": "1d"}):
        for model in (ridge, tmp_path / "ridge.plan", done.model):
            with pytest.raises(imka.ConfigError, match=f"{list(option)[0]} has no effect: the backend is not a chip"):
                imka.run(model, ringnorm.x_test, **option)


def test_calibration_inputs_by_name():
    rng = np.random.default_rng(0)
    tokens, lengths = rng.integers(0, 4, size=(20, 64)).astype(np.uint8), np.full(20, 64)
    listed = imka.deploy(CHECKPOINT, [tokens, lengths], backend="hermes").model
    named = imka.deploy(CHECKPOINT, {"lengths": lengths, "tokens": tokens}, backend="hermes").model
    assert np.array_equal(named.run(tokens, lengths), listed.run(tokens, lengths))
    with pytest.raises(imka.DataError, match="no array for the input 'lengths'"):
        imka.deploy(CHECKPOINT, {"tokens": tokens}, backend="hermes")


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
    assert np.array_equal(imka.run(module, x.astype(np.float64)), imka.run(module, x))
    deployed = imka.deploy(module, x, backend="hermes")
    assert 0.001 < error(deployed.model.run(x), want) < 0.3
    assert module.training


def test_a_layer_of_a_transformer():
    torch = pytest.importorskip("torch")
    if not imka._imka.has_onnx():
        pytest.skip("this build cannot read ONNX")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    x = torch.randn(20, 10, 32)
    if torch.__version__ >= "2":
        pytest.importorskip("onnxscript")
    with torch.no_grad():
        want = layer(x).numpy()
    np.testing.assert_allclose(imka.run(layer, x), want, atol=1e-5)
    np.testing.assert_allclose(imka.run(layer, x[:1]), want[:1], atol=1e-5)
    assert 0.001 < error(imka.run(layer, x, backend="hermes", calibrate=x), want) < 0.3


def test_a_missing_exporter_is_named(monkeypatch):
    torch = pytest.importorskip("torch")

    def export(*arguments, **options):
        try:
            import onnx  # noqa: F401
        except ImportError as error:
            raise RuntimeError("Module onnx is not installed!") from error

    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(ImportError, match="the ONNX exporter of PyTorch needs onnx: pip install onnx"):
        imka.run(torch.nn.Linear(2, 2), np.ones((1, 2)))


def test_a_module_that_only_the_newer_exporter_exports(monkeypatch):
    torch = pytest.importorskip("torch")

    def export(module, arguments, file, input_names, output_names, dynamic_axes, opset_version, dynamo):
        raise RuntimeError("not in this exporter" if dynamo is False else "wrong options")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(imka.ConfigError, match="cannot export the module: not in this exporter.*pip install onnxscript"):
        imka.run(torch.nn.Linear(2, 2), np.ones((1, 2)))


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
    assert list(result) == list(result.to_dict())


def test_results_show_their_table():
    result = imka.cost(network="ks")
    shown = repr(result).splitlines()
    assert shown[-6] == "cases:" and shown[-5].split() == ["read_mode", "copies", "latency_seconds"]
    for line, case in zip(shown[-4:], result.cases):
        assert line.split() == [case["read_mode"], case["copies"], f"{case['latency_seconds']:.6g}"]
    html = result._repr_html_()
    assert html.count("<tr>") == len(list(result)) + 1 + 4 and "<th>latency_seconds</th>" in html
    constants = imka.Chip("hermes").constants()
    shown, left = repr(constants).splitlines(), len(constants.constants) - 12
    assert shown[-1] == f"  and {left} more rows; to_pandas() returns all" and constants.constants[0]["name"] in shown[4]


def test_results_of_one_seed_and_of_several():
    result = imka.gram(dataset="ringnorm", log_ratio=0)
    assert f"{result.gram_error['mean']:.6g} (1 seed)" in repr(result) and "(1 seed)" in result._repr_html_()
    result = imka.gram(dataset="ringnorm", log_ratio=0, seeds=[0, 1])
    assert f"± {result.gram_error['std']:.2g} (2 seeds)" in repr(result)


def test_html_is_escaped():
    assert "a &lt;b&gt;" in imka.Result({"text": "a <b>"})._repr_html_()


def test_results_as_tables_and_pictures():
    pandas = pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = imka.cost(network="ks")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 4
    assert len(result.plot().patches) == 4
    over_seeds = imka.gram(dataset="ringnorm", log_ratio=0, seeds=range(3))
    assert over_seeds.seeds == imka.gram(dataset="ringnorm", log_ratio=0, seeds=np.arange(3)).seeds
    assert list(over_seeds.plot().lines[0].get_xdata()) == [0, 1, 2]
    assert len(over_seeds.to_pandas()) == 1
    with pytest.raises(ValueError, match="nothing to plot.*to_pandas"):
        imka.Chip("hermes").constants().plot()
    matplotlib.pyplot.close("all")


# Every function that returns a Result, with the number of rows of its table and of its bars or points.
RESULTS = {
    "cost": (lambda folder: imka.cost(network="ks"), 4, 4),
    "ridge": (lambda folder: imka.ridge(dataset="ringnorm", log_ratio=0, seeds="0..2"), 1, 3),
    "gram": (lambda folder: imka.gram(dataset="ringnorm", log_ratio=0, seeds="0..2"), 1, 3),
    "attention": (lambda folder: imka.attention.error(length=50, seeds="0..2"), 1, 3),
    "sweep to do": (lambda folder: imka.sweep("smoke", output=folder / "new", dry_run=True), 1, 3),
    "sweep": (lambda folder: imka.sweep("smoke", output=folder / "runs", set={"dataset": "ringnorm"}), 1, 4),
    "report": (lambda folder: imka.report(folder / "runs"), 1, 5),
    "evaluate": (lambda folder: imka.evaluate(CHECKPOINT, modes=["fp32", "all"], samples=20), 2, 2),
    "explain": (lambda folder: imka.Chip("hermes").explain(rows=20, cols=20, inputs=30, seeds=[0, 1]), 15, 15),
    "measure": (lambda folder: imka.Chip("hermes").measure(rows=20, cols=20, seeds=[0, 1]), 5, 5),
    "deploy": (lambda folder: imka.deploy(CHECKPOINT, backend="hermes"), 1, 1),
    "available": (lambda folder: imka.datasets.available(), 10, 10),
    "info": (lambda folder: imka.datasets.info("ringnorm"), 1, 2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_table_and_a_picture(name, folder):
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    make, rows, drawn = RESULTS[name]
    result = make(folder)
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert 1 <= repr(result).count("\n") < 50
    assert len(result.to_pandas()) == rows
    ax = result.plot()
    assert (len(ax.patches) or len(ax.lines[0].get_xdata())) == drawn
    assert len({bar.get_x() for bar in ax.patches}) == len(ax.patches)  # no bar covers another
    if ax.patches:
        assert all(label.get_text() for label in ax.get_xticklabels()) and len(ax.get_xticklabels()) == drawn
        ax.figure.canvas.draw()
        for label in ax.get_xticklabels():  # no label is cut off
            assert ax.figure.bbox.containsy(label.get_window_extent().y0)
    assert matplotlib.pyplot.gcf().axes[0] is ax and result.plot(ax) is ax
    matplotlib.pyplot.close("all")


def test_many_bars_have_some_names():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    rows = [{"core": i, "utilisation": i / 179} for i in range(179)]
    ax = imka.Result({"core_list": rows}, table="core_list", bars=("core", "utilisation")).plot()
    assert len(ax.patches) == 179 and [t.get_text() for t in ax.get_xticklabels()] == [str(i) for i in range(0, 179, 6)]
    matplotlib.pyplot.close("all")


def test_bars_have_the_names_and_the_spread_of_their_rows():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = imka.cost(network="ks")
    ax = result.plot()
    assert [t.get_text() for t in ax.get_xticklabels()] == [f"{c['read_mode']}, copies {c['copies']}" for c in result.cases]
    assert [bar.get_height() for bar in ax.patches] == [c["latency_seconds"] for c in result.cases]
    result = imka.Chip("hermes").measure(rows=20, cols=20, seeds=[0, 1])
    ax = result.plot()
    segments = ax.collections[0].get_segments()
    for (low, high), state in zip(segments, result.states):
        assert high[1] - low[1] == pytest.approx(2 * state["relative_error"]["std"])
    assert ax.get_ylabel() == "relative error" and ax.get_xlabel() == "state"
    matplotlib.pyplot.close("all")


def test_evaluate():
    result = imka.evaluate(CHECKPOINT, "tiny", modes=("fp32", "attention", "all"), seeds=[0, 3], samples=30,
                           backend="hermes", chip_set={"core.adc_noise": 2})
    assert [m["mode"] for m in result.modes] == ["fp32", "attention", "all"] and result.seeds == [0, 3]
    done = subprocess.run([sys.executable, "-m", "imka", "eval", "--checkpoint", CHECKPOINT, "--mode", "fp32,attention,all",
                           "--seeds", "0,3", "--samples", "30", "--backend", "hermes", "--chip-set", "core.adc_noise=2",
                           "--json"], capture_output=True, text=True, check=True)
    for ours, theirs in zip(result.modes, json.loads(done.stdout)["modes"]):
        assert ours["accuracy"] == theirs["accuracy"] and ours["loss"] == theirs["loss"]
    one = imka.evaluate(CHECKPOINT, seeds="0..1", samples=30)
    assert one.accuracy == one.modes[0]["accuracy"] and len(one.modes) == 1
    with pytest.raises(imka.ConfigError, match="a model for the task 'tiny', not 'imdb'"):
        imka.evaluate(CHECKPOINT, "imdb")
    with pytest.raises(imka.ConfigError, match="mode"):
        imka.evaluate(CHECKPOINT, modes="fp33")


def test_file_objects_are_not_file_names(tmp_path):
    with open(tmp_path / "x.onnx", "wb") as closed:
        pass
    for call in (imka.Model, imka.Chip, imka.ProgrammedChip.load, imka.cost, imka.sweep, imka.report, imka.datasets.load,
                 imka.evaluate, imka.deploy, imka.run):
        with pytest.raises(TypeError, match="expected a file name.*, not BufferedWriter"):
            call(closed)
    with pytest.raises(ValueError, match="closed file"):
        pickle.dump(imka.Chip("hermes"), closed)


def test_missing_files_are_os_errors():
    for call in (imka.Model, imka.ProgrammedChip.load, imka.report, imka.evaluate, imka.deploy, imka.run,
                 lambda path: imka.Chip(path.replace("model", "yaml")), lambda path: imka.cost(path.replace("model", "plan"))):
        with pytest.raises(imka.FileError, match=r"missing\.[a-z]*: cannot be read: No such file or directory$"):
            call("missing.model")
    with pytest.raises(imka.ConfigError, match="File is actually a directory: /$"):
        imka.deploy("/")


def test_paths_as_bytes(tmp_path):
    chip = imka.Chip("ideal").program(np.eye(4), np.eye(4))
    chip.save(bytes(tmp_path / "chip.safetensors"))
    assert imka.ProgrammedChip.load(bytes(tmp_path / "chip.safetensors")).shape == (4, 4)


def test_stubs_name_every_function():
    stub = (pathlib.Path(imka.__file__).parent / "_imka.pyi").read_text()
    for name in dir(imka._imka):
        if not name.startswith("_"):
            assert name in stub
    assert "std::" not in stub


@pytest.mark.parametrize("name", ["RandomFeatures", "Chip", "cost", "deploy", "run", "sweep", "report", "datasets", "evaluate"])
def test_everything_public_is_documented(name):
    if name == "RandomFeatures":
        pytest.importorskip("sklearn")
    assert len(getattr(imka, name).__doc__) > 20


def test_import_loads_no_large_package():
    names = ("sklearn", "scipy", "pandas", "matplotlib", "tqdm", "torch", "onnx")
    code = f"import sys, imka; print([name for name in {names} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"


def test_the_example_prints_a_ratio():
    pytest.importorskip("sklearn")
    script = ROOT / "examples/rbf_sampler_speedup.py"
    out = subprocess.run([sys.executable, script, "2000"], capture_output=True, text=True, check=True).stdout
    assert "speed-up: " in out and out.count("Gram error") == 2
