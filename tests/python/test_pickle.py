"""Pickles and copies hold recipes and files: the same bits come back, and other layouts are refused."""
import copy
import inspect
import io
import pickle

import numpy as np
import pytest
from conftest import ROOT

import imka
from imka.attention import KernelAttention, to_torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 16)).astype(np.float32)
TOKENS = [0.5 * RNG.normal(size=(1, 2, 50, 8)).astype(np.float32) for _ in range(3)]


def joblib_copy(value):
    joblib = pytest.importorskip("joblib")
    file = io.BytesIO()
    joblib.dump(value, file)
    file.seek(0)
    return joblib.load(file)


COPIES = [lambda value: pickle.loads(pickle.dumps(value)), copy.copy, copy.deepcopy, joblib_copy]
COPY_NAMES = ["pickle", "copy", "deepcopy", "joblib"]


@pytest.fixture(scope="module")
def ridge_file(tmp_path_factory):
    pytest.importorskip("sklearn")
    path = tmp_path_factory.mktemp("pickle") / "small.safetensors"
    y = (X[:, 0] > 0).astype(int)
    imka.KernelRidgeClassifier(n_components=32, truncation=3.0).fit(X, y).save(path)
    return path


@pytest.fixture(scope="module")
def deployed(ridge_file):
    return imka.deploy(ridge_file, X, backend="hermes", seed=2)


def outputs(model):
    return model.run(X, seed=3)["scores"]


@pytest.mark.parametrize("copied", COPIES, ids=COPY_NAMES)
def test_a_network_gives_the_same_bits(ridge_file, copied):
    model = imka.Model(ridge_file)
    again = copied(model)
    assert again is not model and repr(again) == repr(model)
    assert np.array_equal(outputs(again), outputs(model))


@pytest.mark.parametrize("copied", COPIES, ids=COPY_NAMES)
def test_a_deployed_model_gives_the_same_bits(deployed, copied):
    model = deployed.model
    again = copied(model)
    assert again.backend == "hermes" and np.array_equal(outputs(again), outputs(model))
    assert not np.array_equal(again.run(X, seed=4)["scores"], outputs(model))


@pytest.mark.parametrize("name", ["cnn_opset13", "encoder_opset13", "performer_opset13"])
def test_an_onnx_model_gives_the_same_bits(name):
    if not imka._imka.has_onnx():
        pytest.skip("this build cannot read ONNX")
    model = imka.Model(ROOT / f"tests/models/{name}.onnx")
    text = list(model.inputs.values())[0]
    shape = [int(s) if s.strip().isdigit() else 2 for s in text[text.index("[") + 1:-1].split(",")]
    x = RNG.integers(0, 3, size=shape)
    again = pickle.loads(pickle.dumps(model))
    assert (again.inputs, again.outputs) == (model.inputs, model.outputs)
    assert np.array_equal(again.run(x), model.run(x))


def test_a_copy_of_a_network_can_be_saved_and_deployed(ridge_file, deployed, tmp_path):
    again = pickle.loads(pickle.dumps(imka.Model(ridge_file)))
    plan = imka.deploy(again, X, backend="hermes", seed=2)
    assert plan.name == "small.safetensors" and np.array_equal(outputs(plan.model), outputs(deployed.model))
    at_once = imka.run(again, X, backend="hermes", calibrate=X, seed=2)["scores"]
    assert np.array_equal(at_once, deployed.model.run(X, seed=2)["scores"])
    again.save(tmp_path / "network.safetensors")
    assert np.array_equal(imka.run(tmp_path / "network.safetensors", X)["scores"], outputs(again))
    with pytest.raises(imka.ConfigError, match="expected a name that ends with .safetensors"):
        again.save(tmp_path / "network.plan")
    with pytest.raises(imka.ConfigError, match="expected a name that ends with .plan"):
        deployed.model.save(tmp_path / "model.safetensors")
    with pytest.raises(imka.ConfigError, match="already deployed on hermes"):
        imka.deploy(deployed.model, X)
    with pytest.raises(imka.ConfigError, match="already deployed on hermes"):
        imka.run(deployed.model, X, backend="rram-wan", calibrate=X)


def test_damage_is_found(deployed):
    function, (stamp, name, content) = deployed.model.__reduce__()
    damaged = bytearray(content)
    damaged[-1] ^= 1
    with pytest.raises(imka.DataError, match="checksum"):
        function(stamp, name, bytes(damaged))


def test_pickles_of_another_version_are_refused(deployed):
    chip = imka.Chip("hermes").program(np.eye(4), X[:, :4])
    attention = KernelAttention()
    for value in (deployed.model, imka.Chip("hermes"), chip):
        function, (_, *parts) = value.__reduce__()
        for stamp, found in (((99, "9.9"), "imka 9.9 in format 99"), (b"old", "imka unknown in format None")):
            with pytest.raises(imka.DataError, match=f"{found}; imka .* reads format 1"):
                function(stamp, *parts)
    with pytest.raises(imka.DataError, match="imka unknown in format None.*Create it again"):
        attention.__setstate__({})


def test_a_chip_whose_constants_changed_is_refused(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(imka.Chip("hermes").to_yaml())
    content = pickle.dumps(imka.Chip(file))
    assert pickle.loads(content).hash == imka.Chip(file).hash
    file.write_text(imka.Chip("hermes", set={"core.adc_noise": 9}).to_yaml())
    with pytest.raises(imka.DataError, match="own.yaml' have changed since it was pickled"):
        pickle.loads(content)
    file.unlink()
    with pytest.raises(imka.FileError):
        pickle.loads(content)


@pytest.mark.parametrize("settings", [{"backend": "fp32"}, {"backend": "hermes"}, {"random_state": None},
                                      {"feature_redraw_interval": 5, "random_state": 3}], ids=str)
@pytest.mark.parametrize("copied", COPIES, ids=COPY_NAMES)
def test_attention_gives_the_same_bits(settings, copied):
    attention = KernelAttention(n_directions=20, **settings)
    attention.step(10)
    if attention.backend != "fp32":
        attention.calibrate(*TOKENS[:2])
    want = attention(*TOKENS)
    again = copied(attention)
    assert repr(again) == repr(attention) and np.array_equal(again(*TOKENS), want)


def test_attention_before_its_first_use():
    attention = KernelAttention(n_directions=20, random_state=7)
    again = pickle.loads(pickle.dumps(attention))
    assert np.array_equal(again(*TOKENS), attention(*TOKENS))


def test_the_torch_module(tmp_path):
    torch = pytest.importorskip("torch")
    module = to_torch(KernelAttention(n_directions=20, random_state=None))
    q, k, v = map(torch.from_numpy, TOKENS)
    want = module(q, k, v)
    torch.save(module, tmp_path / "module.pt")
    for again in (torch.load(tmp_path / "module.pt", weights_only=False), copy.deepcopy(module)):
        assert torch.equal(again(q, k, v), want)


def test_results(deployed):
    again = pickle.loads(pickle.dumps(deployed))
    assert again.to_dict() == deployed.to_dict() and np.array_equal(outputs(again.model), outputs(deployed.model))
    result = imka.cost(network="ks")
    assert copy.deepcopy(result).to_dict() == pickle.loads(pickle.dumps(result)).to_dict() == result.to_dict()
    data = imka.datasets.load("ringnorm", train_rows=20, test_rows=5)
    assert all(np.array_equal(a, b) for a, b in zip(pickle.loads(pickle.dumps(data)), data))


def test_what_cannot_be_pickled_says_so():
    state = KernelAttention(n_directions=4, causal=True).state(heads=1, value_size=2, size=2)
    with pytest.raises(TypeError, match="a State cannot be pickled or copied; create it from its KernelAttention"):
        pickle.dumps(state)


def test_every_public_class_has_a_test_above():
    """Estimators are in test_estimators.py."""
    classes = {n for n in imka.__all__ if inspect.isclass(getattr(imka, n)) and not issubclass(getattr(imka, n), Exception)}
    assert classes == {"Chip", "ProgrammedChip", "Model", "Deployment", "Result", "RandomFeatures", "KernelRidgeClassifier",
                       "KernelRidgeRegressor", "ChipProjection"}
    error = pickle.loads(pickle.dumps(imka.FileError("missing.plan")))
    assert isinstance(error, imka.FileError) and str(error) == "missing.plan"
