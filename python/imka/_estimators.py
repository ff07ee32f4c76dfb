"""scikit-learn estimators. All computation is in C++; this file checks inputs and keeps state."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from . import _imka
from ._chip import make_spec
from ._errors import ConfigError, DataError
from ._exec import as_array, make_exec, typed_array
from ._pickle import bytes_of, check_stamp, from_bytes, pack_chip, stamp, with_chip
from ._settings import Parameter, argument_default, default_seed, field, fields, seed_of, settings_of, takes, text_of
from ._verbs import Path, path_text

try:
    from sklearn.base import ClassNamePrefixFeaturesOutMixin
except ImportError:  # scikit-learn before 1.3
    from sklearn.base import _ClassNamePrefixFeaturesOutMixin as ClassNamePrefixFeaturesOutMixin
try:
    from sklearn.utils.validation import validate_data
except ImportError:  # scikit-learn before 1.6

    def validate_data(estimator, X, y="no_validation", **options):
        return estimator._validate_data(X, y, **options)


_BLOCK_ROWS = 4096  # rows of a sparse matrix that are made dense at a time
_COMMON = [
    Parameter("random_state", default_seed(), "integer, RandomState or None",
              "Seed. An integer gives the same bits as this seed in C++ and in the program"),
    Parameter("n_jobs", None, "integer or None",
              "Threads; -1: all cores; None: all cores, or OMP_NUM_THREADS if set. Results do not depend on it"),
    Parameter("verbose", 0, "integer", "Above 0: show progress"),
]
_CHECKS = {"accept_sparse": "csr", "dtype": np.float32, "order": "C"}


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


def _blocks(X):
    """Yields (number of the first row, dense rows): all rows, or blocks of a sparse matrix."""
    if not sparse.issparse(X):
        yield 0, X
        return
    for first in range(0, X.shape[0], _BLOCK_ROWS):
        yield first, X[first:first + _BLOCK_ROWS].toarray()


class _Estimator(BaseEstimator):
    """Settings, threads, checks and pickling. `_fitted`: the C++ object after fit."""

    _fitted = None

    def _exec(self):
        return make_exec(self.n_jobs, self.verbose)

    def _settings(self):
        return settings_of({name: getattr(self, name) for name in self._setting_names}, "run")

    def _noisy(self):
        backend = text_of(self.backend)
        return backend != "fp32" and (backend != "ideal" or bool(self.chip_set))

    def _check_training(self, X, *y, reset=True, **options):
        """Checks the rows of fit or of a batch. reset: first rows, of which a chip needs two to fit its outputs."""
        least = 2 if reset and text_of(self.backend) != "fp32" else 1
        return validate_data(self, as_array(X), *map(as_array, y), reset=reset, ensure_min_samples=least, **_CHECKS,
                             **options)

    def _check_rows(self, X):
        check_is_fitted(self)
        return validate_data(self, as_array(X), reset=False, **_CHECKS)

    def __sklearn_is_fitted__(self):
        return self._fitted is not None

    def _apply(self, call, X):
        """call(rows, number of the first row, exec) for all rows."""
        parts = [call(rows, first, self._exec()) for first, rows in _blocks(X)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __getstate__(self):
        state = dict(super().__getstate__())
        state["_imka_pickle"] = stamp()
        state.pop("_stream", None)
        if self._fitted is not None:
            state["_fitted"] = self._pack()
        return state

    def __setstate__(self, state):
        state = dict(state)
        check_stamp(state.pop("_imka_pickle", None), type(self).__name__, "Fit the estimator again")
        packed = state.pop("_fitted", None)
        super().__setstate__(state)
        if packed is not None:
            self._fitted = self._unpack(packed)


class _NoisyTags:
    """Tags of estimators that can run on a chip. Must precede scikit-learn's mixins in the bases."""

    def exempt_checks(self) -> dict[str, str]:
        """The checks of scikit-learn that a noisy estimator does not pass, with the reason."""
        if not self._noisy():
            return {}
        reason = "the noise of the chip is a function of the seed and of the row number within the call"
        return {"check_methods_subset_invariance": reason, "check_methods_sample_order_invariance": reason}

    def _more_tags(self):  # scikit-learn before 1.6
        tags = {"non_deterministic": False, "_xfail_checks": self.exempt_checks()}
        if isinstance(self, TransformerMixin):
            tags["preserves_dtype"] = [np.float32]
        if isinstance(self, RegressorMixin):
            tags["multioutput"] = True
        return tags

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if isinstance(self, TransformerMixin):
            tags.transformer_tags.preserves_dtype = ["float32"]
        if isinstance(self, RegressorMixin):
            tags.target_tags.single_output = True
            tags.target_tags.multi_output = True
        return tags


_FEATURES = fields("features") + [field("backend")] + fields("chip", without=("fit_on", "fit_draws", "gram_copies"))


@takes(_FEATURES + _COMMON)
class RandomFeatures(_NoisyTags, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Estimator):
    """Random features z(x) of a kernel: z(x) @ z(y) approximates k(x, y).

    Like sklearn.kernel_approximation.RBFSampler, for more kernels and samplers, and optionally with the projection on
    an emulated analog chip (backend="hermes"). The result is float32. n_components is rounded up to a whole number of
    directions: cos and sin of a direction are two features. On a chip, the noise of a row is a function of
    random_state and of the row's number within the call.
    """

    _setting_names = [p.name for p in _FEATURES]

    def fit(self, X: Any, y: Any = None) -> RandomFeatures:
        """Draws the directions. A chip is calibrated on X and programmed."""
        X = self._check_training(X)
        self._fitted = _imka.fit_features(self._settings(), _dense(X), seed_of(self.random_state), self._exec())
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """z(x) of every row, float32."""
        X = self._check_rows(X)
        return self._apply(self._fitted.transform, X)

    @property
    def gamma_(self) -> float:
        """The kernel width in use: gamma, or the value of 'scale'."""
        return float(self._recipe()["gamma"])

    @property
    def omega_(self) -> NDArray[np.float32]:
        """The directions, one per row."""
        check_is_fitted(self)
        return self._fitted.omega()

    @property
    def _n_features_out(self):
        check_is_fitted(self)
        return self._fitted.n_components

    def _recipe(self):
        check_is_fitted(self)
        return self._fitted.recipe()

    def _pack(self):
        return self._fitted.recipe(), self._fitted.product_seed, pack_chip(self._fitted.save_chip)

    def _unpack(self, packed):
        recipe, seed, chip = packed
        return with_chip(chip, lambda parts: _imka.load_features(recipe, seed, parts, self._exec()))


_RIDGE = (fields("features") + fields("ridge") + [field("backend")] + fields("chip", without=("gram_copies",)))


class _Ridge(_NoisyTags):
    """Fits in batches, scores and files: common to both ridge estimators."""

    _setting_names = [p.name for p in _RIDGE]
    _stream = None  # sums over the rows of partial_fit
    _streamed = False  # whether the model comes from partial_fit
    _pending = False  # whether there are batches that are not in the model yet
    _flat = False  # whether y of a regressor had one dimension

    def _is_first_batch(self):
        if self._stream is not None:
            return False
        if self._streamed:
            raise ConfigError("partial_fit cannot continue: the sums over earlier rows are gone, because a pickle or copy "
                              "does not hold them or a batch was interrupted. Call fit, or partial_fit on a new estimator")
        if self._fitted is not None:
            warnings.warn("partial_fit after fit starts a new fit; the rows given to fit are not part of it")
        return True

    def _start_stream(self, X, outputs):
        self._stream = _imka.ridge_stream(self._settings(), _dense(X), outputs, seed_of(self.random_state),
                                          self._exec())
        self._streamed = True

    def _add_batch(self, X, targets):
        try:
            for first, rows in _blocks(X):
                self._stream.add(rows, targets[first:first + rows.shape[0]], self._exec())
        except KeyboardInterrupt:
            self._stream = None  # some of these rows may be in the sums
            raise
        self._pending = True

    def _fitted_model(self):
        """Returns the model; solves first if batches were added after the last solution."""
        check_is_fitted(self)
        if self._stream is not None and self._pending:
            self._fitted = self._stream.solve(self._class_names(), self._exec())
            self._pending = False
        return self._fitted

    def __sklearn_is_fitted__(self):
        return self._fitted is not None or self._stream is not None

    def __getstate__(self):
        if self.__sklearn_is_fitted__():
            self._fitted_model()
        return super().__getstate__()

    def _scores(self, X):
        X = self._check_rows(X)
        return self._apply(self._fitted_model().scores, X)

    @property
    def gamma_(self) -> float:
        """The kernel width in use: gamma, or the value of 'scale'."""
        return self._fitted_model().gamma

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, one row per output; a vector if a regressor's y had one dimension."""
        weights = self._fitted_model().weights().T
        return weights[0] if self._flat else weights

    @property
    def intercept_(self) -> NDArray[np.float64] | np.float64:
        """One number per output; a scalar if a regressor's y had one dimension."""
        intercept = self._fitted_model().intercept()
        return intercept[0] if self._flat else intercept

    def save(self, path: Path) -> None:
        """Writes the model to a file that `imka ridge --load`, `imka deploy` and `imka run` read."""
        self._fitted_model().save(path_text(path))

    def _pack(self):
        return bytes_of(self._fitted.save), self._fitted.product_seed, pack_chip(self._fitted.save_chip)

    def _unpack(self, packed):
        content, seed, chip = packed
        return with_chip(chip, lambda parts: from_bytes(
            content, lambda path: _imka.load_ridge(path, seed, parts, self._exec())))


@takes(_RIDGE + _COMMON)
class KernelRidgeClassifier(_Ridge, ClassifierMixin, _Estimator):
    """Ridge classifier on random features of a kernel: two classes, or one-vs-rest.

    Memory does not grow with the number of rows. There is no predict_proba: the scores of a least-squares fit are not
    probabilities; sklearn.calibration.CalibratedClassifierCV computes probabilities from decision_function.
    """

    def fit(self, X: Any, y: Any) -> KernelRidgeClassifier:
        """Fits to all rows at once."""
        X, y = self._check_training(X, y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"{type(self).__name__} needs at least two classes; y has one class: {self.classes_[0]!r}")
        self._stream, self._streamed = None, False
        self._fitted = _imka.fit_classifier(self._settings(), _dense(X), numbers.astype(np.int32), self._class_names(),
                                            seed_of(self.random_state), self._exec())
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> KernelRidgeClassifier:
        """Adds a batch of rows.

        The first call needs all classes; it fixes gamma='scale' and the calibration of the chip.
        """
        first = self._is_first_batch()
        classes = getattr(self, "classes_", None) if classes is None else classes
        if classes is None:
            raise ConfigError("classes must be passed on the first call to partial_fit")
        X, y = self._check_training(X, y, reset=first)
        check_classification_targets(y)
        if first:
            if len(unique_labels(classes)) < 2:
                raise ConfigError(f"classes={classes!r}; expected at least two classes")
            self.classes_ = unique_labels(classes)
        elif not np.array_equal(self.classes_, unique_labels(classes)):
            raise ConfigError(f"classes={classes!r} differs from the classes of the first call, {self.classes_!r}")
        numbers = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if not np.array_equal(self.classes_[numbers], y):
            raise DataError(f"y has a class that was not in the classes of the first call: {self.classes_!r}")
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        if first:
            self._start_stream(X, outputs)
        rows = np.arange(len(self.classes_)) == numbers[:, None]
        targets = np.where(rows[:, 1:] if outputs == 1 else rows, np.float32(1), np.float32(-1))
        self._add_batch(X, targets)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: above 0 for the second of two classes, or one per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row. A tie goes to the first class."""
        scores = self._scores(X)
        numbers = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[numbers]

    def _class_names(self):
        return [str(c) for c in self.classes_]


@takes(_RIDGE + _COMMON)
class KernelRidgeRegressor(_Ridge, RegressorMixin, _Estimator):
    """Ridge regression on random features of a kernel, for one or several targets.

    Memory does not grow with the number of rows. Targets are rounded to float32; predictions are float64.
    """

    def fit(self, X: Any, y: Any) -> KernelRidgeRegressor:
        """Fits to all rows at once."""
        X, targets, self._flat = self._check_fit(X, y)
        self._stream, self._streamed = None, False
        self._fitted = _imka.fit_regressor(self._settings(), _dense(X), targets, seed_of(self.random_state),
                                           self._exec())
        return self

    def partial_fit(self, X: Any, y: Any) -> KernelRidgeRegressor:
        """Adds a batch of rows. The first call fixes gamma='scale' and the calibration of the chip."""
        first = self._is_first_batch()
        X, targets, flat = self._check_fit(X, y, reset=first)
        if first:
            self._flat = flat
            self._start_stream(X, targets.shape[1])
        self._add_batch(X, targets)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The prediction for every row: one number per target."""
        scores = self._scores(X)
        return scores[:, 0] if self._flat else scores

    def _check_fit(self, X, y, **options):
        """Returns the rows, the targets with two dimensions, and whether y had one dimension."""
        X, y = self._check_training(X, y, multi_output=True, y_numeric=True, **options)
        targets = typed_array(np.reshape(y, (len(y), -1)), "y")
        if not np.isfinite(targets).all():
            raise DataError("y has a value that is too large for float32")
        return X, targets, np.ndim(y) == 1

    def _class_names(self):
        return []


_PROJECTION = [
    Parameter("weights", None, "array of shape (n_features, n_outputs) or None", "The matrix; None: the identity"),
    Parameter("backend", argument_default("chip"), "name or FILE.yaml", "The chip"),
    Parameter("chip_set", None, "dict or None", "Changed constants of the chip, such as {'core.adc_noise': 2}"),
] + fields("build")


@takes(_PROJECTION + _COMMON)
class ChipProjection(_NoisyTags, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Estimator):
    """X @ weights, computed on an emulated chip.

    fit calibrates the chip on X and programs it. The noise of a row is a function of random_state and of the row's
    number within the call.
    """

    _setting_names = [p.name for p in fields("build")]

    def fit(self, X: Any, y: Any = None) -> ChipProjection:
        """Calibrates the chip on X and programs it."""
        X = self._check_training(X)
        columns = X.shape[1]
        weights = typed_array(np.eye(columns) if self.weights is None else self.weights, "weights")
        if weights.ndim != 2 or weights.shape[0] != columns:
            raise DataError(f"weights: shape {weights.shape}; expected ({columns}, n_outputs) for these rows")
        chip = make_spec(self.backend, self.chip_set)
        self._fitted = chip.program(weights, _dense(X), self._settings(), seed_of(self.random_state), self._exec())
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The products of every row, float32."""
        X = self._check_rows(X)
        return self._apply(lambda rows, first, exec_: self._fitted.mvm(rows, None, first, exec_), X)

    @property
    def _n_features_out(self):
        check_is_fitted(self)
        return self._fitted.shape[1]

    def _pack(self):
        return pack_chip(self._fitted.save)

    def _unpack(self, packed):
        return with_chip(packed, lambda parts: _imka.load_programmed(parts, self._exec()))
