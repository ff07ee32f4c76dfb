"""Arrays of other libraries come in and results go out without copies."""
import tracemalloc

import numpy as np
import pytest

import imka
from imka.attention import KernelAttention, exact_attention

ROWS = 200_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 20)).astype(np.float32)  # 16 MB
TOKENS = RNG.normal(size=(1, 1, 40_000, 32)).astype(np.float32)  # 5 MB


class OnlyDlpack:
    """An array of a library that NumPy knows through DLPack only."""

    def __init__(self, array, device=(1, 0)):
        self._array, self._device = array, device

    def __dlpack__(self, **options):
        if self._device != (1, 0):
            raise BufferError("the data are on a GPU")
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._device


def torch_tensor(array):
    return pytest.importorskip("torch").from_numpy(array)


KINDS = {"numpy": lambda array: array, "torch": torch_tensor, "dlpack": OnlyDlpack}


def copied_bytes(call):
    """Peak of the memory that NumPy allocates during the call, in bytes. It does not include results of imka."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def ridge_file(tmp_path_factory):
    pytest.importorskip("sklearn")
    path = tmp_path_factory.mktemp("arrays") / "model.safetensors"
    imka.KernelRidgeRegressor(n_components=8, truncation=3.0).fit(X[:300], X[:300, 0]).save(path)
    return path


@pytest.fixture(scope="module")
def calls(ridge_file):
    """Calls with one large array each, during which NumPy must allocate less than a third of its size."""
    pytest.importorskip("sklearn")
    features = imka.RandomFeatures(n_components=4).fit(X[:300])
    ridge = imka.KernelRidgeRegressor(n_components=4).fit(X[:300], X[:300, 0])
    model = imka.Model(ridge_file)
    chip = imka.deploy(ridge_file, X[:500], backend="hermes").model
    programmed = imka.Chip("ideal").program(X[:20, :2], X[:300])
    kernel = KernelAttention(n_directions=4)
    return {
        "transform": (X, features.transform),
        "predict": (X, ridge.predict),
        "run": (X, lambda x: imka.run(model, x)),
        "run from a file": (X, lambda x: imka.run(ridge_file, x)),
        "run on a chip": (X, chip.run),
        "mvm": (X, programmed.mvm),
        "attention": (TOKENS, lambda x: kernel(x, x, x)),
        "exact attention": (TOKENS[:, :, :2000], lambda x: exact_attention(x, x, x)),
    }


NAMES = ["transform", "predict", "run", "run from a file", "run on a chip", "mvm", "attention", "exact attention"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_not_copied(calls, name, kind):
    array, call = calls[name]
    array = np.ascontiguousarray(array)
    given = KINDS[kind](array)
    assert copied_bytes(lambda: call(given)) < array.nbytes / 3
    # The measurement works: a different element type must be copied.
    assert copied_bytes(lambda: call(array.astype(np.float64))) >= array.nbytes


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_arrays_give_the_same_bits(calls, name, kind):
    array, call = calls[name]
    array = np.ascontiguousarray(array[:300] if array is X else array[:, :, :300])
    want, got = call(array), call(KINDS[kind](array))
    for key in want if isinstance(want, dict) else [...]:
        assert np.array_equal(got[key], want[key])


@pytest.mark.parametrize("name", ["transform", "mvm", "attention", "exact attention"])
def test_results_share_memory_through_dlpack(calls, name):
    array, call = calls[name]
    result = call(np.ascontiguousarray(array[:10] if array is X else array[:, :, :10]))
    assert np.shares_memory(np.from_dlpack(result), result)
    torch = pytest.importorskip("torch")
    for tensor in (torch.from_dlpack(result), torch.from_numpy(result)):
        assert tensor.data_ptr() == result.ctypes.data
    tensor[...] = 5
    assert (result == 5).all()


def test_results_of_a_model_share_memory_through_dlpack(ridge_file):
    torch = pytest.importorskip("torch")
    scores = imka.Model(ridge_file).run(X[:10])
    tensor = torch.from_dlpack(scores)
    assert tensor.data_ptr() == scores.ctypes.data
    del scores
    assert torch.isfinite(tensor).all()  # the tensor keeps the memory


def test_tensors_that_require_a_gradient_are_refused(calls):
    torch = pytest.importorskip("torch")
    for name in ("transform", "run", "mvm", "attention"):
        array, call = calls[name]
        with pytest.raises(imka.DataError, match=r"Tensor: requires a gradient.*call its detach\(\) first"):
            call(torch.from_numpy(array).requires_grad_())


class OnGpu(OnlyDlpack):
    """An array that also has NumPy's protocol, like those of PyTorch and CuPy."""

    def __array__(self, *arguments, **options):
        raise TypeError("use .cpu() first")


@pytest.mark.parametrize("kind", [OnlyDlpack, OnGpu])
def test_arrays_on_another_device_are_refused(calls, kind):
    for name in ("transform", "run", "mvm", "attention"):
        array, call = calls[name]
        with pytest.raises(imka.DataError, match=f"{kind.__name__}: .*expected an array in the memory of the processor"):
            call(kind(array, device=(2, 0)))
