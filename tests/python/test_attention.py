"""Attention against NumPy, its options, states, chips and the PyTorch module."""
import numpy as np
import pytest

import imka
from imka.attention import KernelAttention, exact_attention, forms, to_torch


@pytest.fixture(scope="module")
def tokens():
    rng = np.random.default_rng(0)
    return [0.5 * rng.normal(size=(2, 3, 200, 16)).astype(np.float32) for _ in range(3)]


def softmax_attention(q, k, v, mask=None, causal=False):
    scores = q.astype(float) @ k.astype(float).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask[:, None, None, :], scores, -np.inf)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("causal", [False, True])
def test_exact_attention_equals_numpy(tokens, causal):
    q, k, v = tokens
    mask = np.ones((2, 200), dtype=bool)
    mask[1, 150:] = False
    y = exact_attention(q, k, v, key_mask=mask, causal=causal)
    assert y.dtype == np.float32 and y.shape == q.shape
    np.testing.assert_allclose(y, softmax_attention(q, k, v, mask, causal), atol=2e-6)


def test_arrays_of_lower_rank(tokens):
    q, k, v = tokens
    whole = exact_attention(q, k, v)
    np.testing.assert_array_equal(exact_attention(q[1], k[1], v[1]), whole[1])
    np.testing.assert_array_equal(exact_attention(q[1, 2], k[1, 2], v[1, 2]), whole[1, 2])


def test_kernelised_attention_approximates(tokens):
    q, k, v = tokens
    exact = exact_attention(q, k, v)

    def error(m):
        attention = KernelAttention(n_directions=m, random_state=1)
        return np.linalg.norm(attention(q, k, v) - exact) / np.linalg.norm(exact)

    assert error(1024) < error(16) and error(1024) < 0.1


def test_settings_and_their_other_names(tokens):
    q, k, v = tokens
    assert len(forms()) == 7
    a = KernelAttention(nb_features=32, form="relu", kernel_epsilon=1e-3, random_state=2)
    assert a.n_directions == 32 and "relu" in repr(a)
    b = KernelAttention(n_directions=32, form="relu", kernel_epsilon=1e-3, random_state=2, n_jobs=1)
    np.testing.assert_array_equal(a(q, k, v), b(q, k, v))
    assert a.n_features_ == 32
    with pytest.raises(TypeError, match="unexpected keyword"):
        KernelAttention(n_direction=3)
    with pytest.raises(imka.ConfigError, match="the same setting"):
        KernelAttention(n_directions=3, nb_features=3)
    with pytest.raises(ValueError, match="kernel_epsilon"):
        KernelAttention(kernel_epsilon=-1)(q, k, v)


def test_redraws_are_events(tokens):
    q, k, v = tokens
    a = KernelAttention(n_directions=16, feature_redraw_interval=10)
    first = a(q, k, v)
    assert not a.step(9)
    np.testing.assert_array_equal(a(q, k, v), first)
    assert a.step(10) and not a.step(11)
    assert not np.array_equal(a(q, k, v), first)
    # The draw of a step does not depend on how it was reached.
    b = KernelAttention(n_directions=16, feature_redraw_interval=10)
    b.step(10)
    np.testing.assert_array_equal(a(q, k, v), b(q, k, v))


def test_a_state_equals_the_causal_run(tokens):
    q, k, v = (x[0] for x in tokens)
    attention = KernelAttention(n_directions=64, causal=True)
    whole = attention(q, k, v)
    state = attention.state(heads=3, value_size=16)
    for t in range(50):
        np.testing.assert_allclose(state.append(q[:, t], k[:, t], v[:, t]), whole[:, t], atol=2e-5)
    assert state.tokens == 50 and "50 tokens" in repr(state)


def test_on_a_chip(tokens):
    q, k, v = tokens
    exact = exact_attention(q, k, v)
    chip = KernelAttention(n_directions=127, sampler="sorf", backend="hermes")
    with pytest.raises(imka.ConfigError, match="calibrate"):
        chip(q, k, v)
    y = chip.calibrate(q, k)(q, k, v)
    digital = KernelAttention(n_directions=127, sampler="sorf", truncation=3)(q, k, v)
    assert not np.array_equal(y, digital)
    assert np.linalg.norm(y - exact) < 3 * np.linalg.norm(digital - exact) + 0.2 * np.linalg.norm(exact)
    np.testing.assert_array_equal(chip(q, k, v), y)
    assert not np.array_equal(chip(q, k, v, seed=5), y)
    aged = KernelAttention(n_directions=127, sampler="sorf", backend="hermes").calibrate(q, k, read_seconds=86400)
    assert np.linalg.norm(aged(q, k, v) - exact) > np.linalg.norm(y - exact)
    with pytest.raises(imka.ConfigError, match="unknown setting 'read_second'; did you mean 'read_seconds'"):
        chip.calibrate(q, k, read_second=1)


def test_bad_inputs(tokens):
    q, k, v = tokens
    with pytest.raises(imka.DataError, match="3 heads of queries cannot share 2 heads"):
        exact_attention(q, k[:, :2], v[:, :2])
    with pytest.raises(imka.DataError, match="key_mask: 7 keys; expected 200"):
        exact_attention(q, k, v, key_mask=np.ones(7))
    with pytest.raises(imka.DataError, match="1 dimensions"):
        exact_attention(q[0, 0, 0], k, v)
    with pytest.raises(imka.DataError, match=r"key_mask: shape \(3, 200\); expected \(2, 200\)"):
        exact_attention(q, k, v, key_mask=np.ones((3, 200)))
    with pytest.raises(imka.DataError, match=r"key_mask: shape \(2, 3, 200\)"):
        exact_attention(q, k, v, key_mask=np.ones((2, 3, 200)))
    with pytest.raises(imka.ConfigError, match="causal: 'no'; expected True or False"):
        exact_attention(q, k, v, causal="no")
    attention = KernelAttention(n_directions=8)
    for call, name in ((lambda: attention(q, k, v, seed=-1), "seed"), (lambda: attention.state(-1, 4, size=4), "heads"),
                       (lambda: attention.state(1, -4, size=4), "value_size"), (lambda: KernelAttention(layer=-1)(q, k, v), "layer")):
        with pytest.raises(imka.ConfigError, match=f"{name}: -[14]; expected an integer from 0"):
            call()
    with pytest.raises(imka.DataError, match="q: 1 dimensions; expected heads x size"):
        attention.state(heads=3, value_size=16).append(q[0, 0, 0], k[0, 0, 0], v[0, 0, 0])
    wrong = k.copy()
    wrong[1, 2, 5, 0] = np.nan
    with pytest.raises(imka.DataError, match="key 5 of head 2 is not finite"):
        KernelAttention()(q, wrong, v)


def test_as_a_torch_module(tokens):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    q, k, v = (torch.from_numpy(x) for x in tokens)
    attention = KernelAttention(n_directions=64)
    module = to_torch(attention)
    with torch.no_grad():
        y = module(q, k, v)
    np.testing.assert_array_equal(y.numpy(), attention(*tokens))
    assert "KernelAttention" in repr(module)
    with pytest.raises(imka.ConfigError, match="no_grad"):
        module(q.requires_grad_(), k, v)
