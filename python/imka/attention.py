"""Attention: exact in linear memory, and kernelised (FAVOR+ and others) in linear time.

Arrays are (batch, heads, length, size), (heads, length, size) or (length, size); float32 arrays in C order, including
PyTorch CPU tensors, are not copied. Results are NumPy arrays of the same rank; torch.from_dlpack shares their memory.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _imka
from ._chip import make_spec
from ._errors import ConfigError, DataError, missing_package
from ._exec import as_array, make_exec, typed_array
from ._pickle import check_stamp, pack_chip, stamp, with_chip
from ._result import Result
from ._settings import (Parameter, argument_default, default_seed, field, fields, flag, number, seed_of, settings_of,
                        takes, text_of, whole)
from ._verbs import command

__all__ = ["KernelAttention", "State", "error", "exact_attention", "forms", "to_torch"]

_CAUSAL: bool = argument_default("causal")
_NAMES = {"nb_features": "n_directions"}  # as in Performer libraries


def forms() -> list[dict[str, Any]]:
    """The features of kernelised attention: name, formula, features per direction."""
    return _imka.attention_forms()


def _tokens(x, what):
    array = typed_array(x, what)
    if not 2 <= array.ndim <= 4:
        raise DataError(f"{what}: {array.ndim} dimensions; expected (batch, heads, length, size) or fewer")
    return array.reshape((1,) * (4 - array.ndim) + array.shape), array.ndim


def _arrays(q, k, v, key_mask):
    (q, rank), (k, _), (v, _) = _tokens(q, "q"), _tokens(k, "k"), _tokens(v, "v")
    if key_mask is not None:
        key_mask = np.ascontiguousarray(np.atleast_2d(np.asarray(as_array(key_mask)) != 0), dtype=np.uint8)
        if key_mask.shape[-1] != k.shape[2]:
            raise DataError(f"key_mask: {key_mask.shape[-1]} keys; expected {k.shape[2]}")
        if key_mask.ndim > 2 or key_mask.shape[0] not in (1, k.shape[0]):
            raise DataError(f"key_mask: shape {key_mask.shape}; expected {(k.shape[0], k.shape[2])} (batch, keys) or "
                            f"{(k.shape[2],)}")
        key_mask = np.ascontiguousarray(np.broadcast_to(key_mask, (k.shape[0], k.shape[2])))
    return q, k, v, key_mask, rank


def _scale(scale):
    return None if scale is None else number(scale, "scale")


def _ranked(out, rank):
    return out.reshape(out.shape[4 - rank:])


def exact_attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, key_mask: Optional[ArrayLike] = None,
                    causal: bool = _CAUSAL, scale: Optional[float] = None, n_jobs: Optional[int] = None,
                    verbose: int = 0) -> NDArray[np.float32]:
    """softmax(scale q kᵀ) v without the matrix of scores.

    key_mask : (batch, keys) or (keys,); False or 0 for keys that are ignored.
    scale : factor of the scores; None: 1 / sqrt(size).
    """
    q, k, v, key_mask, rank = _arrays(q, k, v, key_mask)
    out = _imka.exact_attention(q, k, v, key_mask, flag(causal, "causal"), _scale(scale), make_exec(n_jobs, verbose))
    return _ranked(out, rank)


_SETTINGS = fields("attention")
_OTHERS = [
    Parameter("backend", field("backend").default, "fp32, a chip or FILE.yaml", "Where the projections are computed"),
    Parameter("chip_set", None, "dict or None", "Changed constants of the chip"),
    Parameter("random_state", default_seed(), "integer, RandomState or None", "Seed of the directions and of the chip"),
    Parameter("layer", argument_default("layer"), "integer", "Number of the layer: each has its own directions unless shared"),
    Parameter("causal", _CAUSAL, "boolean", "Query i uses keys 0..i"),
    Parameter("scale", None, "number or None", "Factor of the scores; None: 1 / sqrt(size)"),
    Parameter("n_jobs", None, "integer or None", "Threads; -1: all cores; None: all cores, or OMP_NUM_THREADS if set"),
    Parameter("verbose", 0, "integer", "Above 0: show progress"),
]


@takes(_SETTINGS + _OTHERS)
class KernelAttention:
    """Kernelised attention: φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k), φ random features of the softmax kernel.

    The directions are drawn when the first queries arrive, for their size. With a chip as backend, call
    calibrate(q, k) first; all queries and keys then go through the same programmed matrix. nb_features is another name
    for n_directions.
    """

    if TYPE_CHECKING:  # added by the decorator
        def __init__(self, **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __call__(self, q: ArrayLike, k: ArrayLike, v: ArrayLike, key_mask: Optional[ArrayLike] = None,
                 seed: Optional[int] = None) -> NDArray[np.float32]:
        """The outputs. seed: seed of the noise of a chip; None: from random_state."""
        q, k, v, key_mask, rank = _arrays(q, k, v, key_mask)
        attention = self._ready(q.shape[3])
        seed = self._seed if seed is None else whole(seed, "seed")
        causal, scale = flag(self.causal, "causal"), _scale(self.scale)
        return _ranked(attention.run(q, k, v, key_mask, causal, scale, seed, self._exec()), rank)

    def calibrate(self, q: ArrayLike, k: ArrayLike, **settings: Any) -> KernelAttention:
        """Draws the directions, calibrates the chip with these queries and keys and programs it.

        settings : as in Chip.program, e.g. read_seconds, compensation, replicas.
        """
        if text_of(self.backend) == "fp32":
            raise ConfigError("calibrate needs a chip as backend")
        rows = np.concatenate([_tokens(x, n)[0].reshape(-1, np.shape(x)[-1]) for x, n in ((q, "q"), (k, "k"))])
        chip = make_spec(self.backend, self.chip_set)
        scale = _scale(self.scale) or 1 / math.sqrt(rows.shape[1])
        build = settings_of(settings, "build")
        features, _, *draw = drawn = self._draw(rows.shape[1])
        rows = np.ascontiguousarray(rows)
        self._attention = _imka.kernel_attention_on_chip(features, build, chip, rows, math.sqrt(scale), *draw, self._exec())
        self._drawn = drawn
        return self

    def redraw(self) -> KernelAttention:
        """Draws new directions, as step() does every feature_redraw_interval training steps.

        With a chip, call calibrate again.
        """
        self._redraws += 1
        self._attention = None
        return self

    def step(self, number: int) -> bool:
        """Call before every training step: redraws the directions if due. Returns whether it did."""
        interval = int(self.feature_redraw_interval)
        due = number // interval if interval > 0 else 0
        if due == self._redraws:
            return False
        self._redraws = due
        self._attention = None
        return True

    def state(self, heads: int, value_size: int, key_heads: Optional[int] = None, size: Optional[int] = None) -> State:
        """A State that takes one token at a time.

        size: size of the queries; needed if no directions have been drawn yet.
        """
        if self._attention is None and size is None:
            raise ConfigError("state needs size, the size of a query")
        attention = self._attention or self._ready(whole(size, "size"))
        heads = whole(heads, "heads")
        key_heads = heads if key_heads is None else whole(key_heads, "key_heads")
        value_size = whole(value_size, "value_size")
        return State(_imka.attention_state(attention, heads, key_heads, value_size, _scale(self.scale)))

    @property
    def n_features_(self) -> int:
        """Features per query or key."""
        if self._attention is None:
            raise ConfigError("no directions yet: call the attention first")
        return self._attention.n_features

    def __getstate__(self):
        state = {**vars(self), "_imka_pickle": stamp()}
        if state.pop("_attention", None) is not None:
            state["_chip"] = pack_chip(self._attention.save_chip)
        return state

    def __setstate__(self, state):
        state = dict(state)
        check_stamp(state.pop("_imka_pickle", None), type(self).__name__, "Create it again")
        drawn, chip = "_chip" in state, state.pop("_chip", None)
        vars(self).update(state)
        if drawn:
            self._attention = with_chip(chip, self._load)

    def _load(self, chip):
        if chip is None:
            return _imka.kernel_attention(*self._drawn)
        return _imka.load_attention_on_chip(self._drawn[0], chip, self._exec())

    _attention = None
    _drawn = None  # arguments of the last draw of directions
    _redraws = 0
    _seed = None

    def _exec(self):
        return make_exec(self.n_jobs, self.verbose)

    def _settings(self):
        return settings_of({p.name: getattr(self, p.name) for p in _SETTINGS}, "attention")

    def _draw(self, size):
        if self._redraws == 0 or self._seed is None:
            self._seed = seed_of(self.random_state)
        return self._settings(), size, self._seed, whole(self.layer, "layer"), self._redraws

    def _ready(self, size):
        if self._attention is None:
            if text_of(self.backend) != "fp32":
                raise ConfigError(f"backend '{self.backend}': call calibrate(q, k) first")
            self._drawn = self._draw(size)
            self._attention = _imka.kernel_attention(*self._drawn)
        if self._attention.d != size:
            raise DataError(f"queries of size {size}; the directions were drawn for {self._attention.d}")
        return self._attention

    def __repr__(self):
        changed = [f"{p.name}={getattr(self, p.name)!r}" for p in _SETTINGS + _OTHERS if getattr(self, p.name) != p.default]
        return f"KernelAttention({', '.join(changed)})"


def _accept_other_names(cls):
    """nb_features=... for n_directions=..."""
    init = cls.__init__

    def __init__(self, **values):
        for other, name in _NAMES.items():
            if other in values:
                if name in values:
                    raise ConfigError(f"{other} and {name} are the same setting; give one")
                values[name] = values.pop(other)
        init(self, **values)

    __init__.__signature__ = init.__signature__
    cls.__init__ = __init__


_accept_other_names(KernelAttention)


class State:
    """Causal attention, one token at a time, in constant memory; created by KernelAttention.state."""

    def __init__(self, state):
        self._state = state

    def append(self, q: ArrayLike, k: ArrayLike, v: ArrayLike) -> NDArray[np.float32]:
        """Adds a token (heads x size each) and returns its outputs, heads x value size."""
        return self._state.append(*(self._token(x, name) for x, name in ((q, "q"), (k, "k"), (v, "v"))))

    @staticmethod
    def _token(x, what):
        array = typed_array(x, what)
        if array.ndim != 2:
            raise DataError(f"{what}: {array.ndim} dimensions; expected heads x size of one token")
        return array

    def __reduce__(self):
        raise TypeError("a State cannot be pickled or copied; create it from its KernelAttention and append the tokens")

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self._state.tokens

    @property
    def nbytes(self) -> int:
        """Memory of the state in bytes."""
        return self._state.nbytes

    def __repr__(self):
        return f"<imka.attention.State: {self.tokens} tokens, {self.nbytes} bytes>"


def to_torch(attention: KernelAttention) -> Any:
    """A torch.nn.Module around a KernelAttention: forward(q, k, v, key_mask=None) of CPU tensors, without gradients."""
    try:
        import torch
    except ImportError as error:
        raise missing_package("to_torch", "torch") from error

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, q, k, v, key_mask=None):
            if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
                raise ConfigError("imka computes no gradients here; use torch.no_grad()")
            for name, x in (("q", q), ("k", k), ("v", v)):
                if x.device.type != "cpu":
                    raise DataError(f"{name} is on {x.device}; expected a CPU tensor")
            arrays = [x.detach().float().numpy() for x in (q, k, v)]
            mask = None if key_mask is None else key_mask.detach().numpy()
            return torch.from_numpy(self.attention(*arrays, key_mask=mask)).to(q.dtype)

        def extra_repr(self):
            return repr(self.attention)

        def __reduce__(self):
            return to_torch, (self.attention,)

    return Attention()


def error(**options: Any) -> Result:
    """Error of kernelised attention against exact attention over seeds (`imka attention --help`)."""
    return command("attention", **options)
