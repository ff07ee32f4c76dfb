"""scikit-learn's checks and conventions."""
import copy
import inspect
import io
import pickle
import warnings

import numpy as np
import pytest

import imka

sklearn = pytest.importorskip("sklearn")
from scipy import sparse  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.kernel_approximation import RBFSampler  # noqa: E402
from sklearn.linear_model import Ridge  # noqa: E402
from sklearn.metrics.pairwise import rbf_kernel  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

CLASSES = [imka.RandomFeatures, imka.KernelRidgeClassifier, imka.KernelRidgeRegressor]
ESTIMATORS = [c() for c in CLASSES] + [c(backend="hermes") for c in CLASSES] + [imka.ChipProjection()]
IDS = [repr(e) for e in ESTIMATORS]
NEW_CHECKS = "expected_failed_checks" in inspect.signature(estimator_checks.check_estimator).parameters


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=IDS)
def test_scikit_learns_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if NEW_CHECKS:
            estimator_checks.check_estimator(estimator, expected_failed_checks=estimator.exempt_checks())
        else:
            estimator_checks.check_estimator(estimator)


def test_only_noisy_estimators_are_exempt():
    for estimator in ESTIMATORS:
        noisy = getattr(estimator, "backend") == "hermes"
        assert set(estimator.exempt_checks()) == ({"check_methods_subset_invariance",
                                                   "check_methods_sample_order_invariance"} if noisy else set())
    assert not imka.RandomFeatures(backend="ideal").exempt_checks()
    assert imka.RandomFeatures(backend="ideal", chip_set={"core.adc_noise": 2}).exempt_checks()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 6)).astype(np.float32)
    y = (np.sin(x[:, 0]) + x[:, 1] ** 2 > 0.7).astype(int)
    return x, y


def fitted(estimator, rows):
    x, y = rows
    return clone(estimator).fit(x, y)


def outputs(estimator, x):
    for name in ("transform", "decision_function", "predict"):
        if hasattr(estimator, name):
            return getattr(estimator, name)(x)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=IDS)
def test_pickle_gives_the_same_bits(estimator, rows):
    joblib = pytest.importorskip("joblib")
    first = fitted(estimator, rows)
    want = outputs(first, rows[0])
    assert np.array_equal(outputs(pickle.loads(pickle.dumps(first)), rows[0]), want)
    file = io.BytesIO()
    joblib.dump(first, file)
    file.seek(0)
    assert np.array_equal(outputs(joblib.load(file), rows[0]), want)


def test_a_pickle_holds_the_recipe_not_the_directions(rows):
    x = np.zeros((4, 300), np.float32)
    features = imka.RandomFeatures(n_components=20000).fit(x)
    assert len(pickle.dumps(features)) < 4000  # the directions alone are 12 MB


def test_a_pickle_of_another_format_is_refused(rows):
    state = fitted(imka.RandomFeatures(), rows).__getstate__()
    state["_imka_pickle"] = (99, "9.9")
    with pytest.raises(imka.DataError, match="imka 9.9 in format 99.*Fit the estimator again"):
        imka.RandomFeatures().__setstate__(state)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=IDS)
def test_pandas_and_sparse_rows_give_the_same_bits(estimator, rows):
    pandas = pytest.importorskip("pandas")
    x, y = rows
    want = outputs(fitted(estimator, rows), x)
    frame = pandas.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])])
    assert np.array_equal(outputs(clone(estimator).fit(frame, y), frame), want)
    csr = sparse.csr_matrix(x)
    assert np.array_equal(outputs(clone(estimator).fit(csr, y), csr), want)


def test_sparse_rows_in_several_blocks_have_the_noise_of_their_numbers():
    x = sparse.random(9000, 8, density=0.3, format="csr", random_state=0, dtype=np.float32)
    features = imka.RandomFeatures(backend="hermes", n_components=16).fit(x)
    assert np.array_equal(features.transform(x), features.transform(x.toarray()))


def test_float32_rows_are_not_copied(rows):
    x = np.ascontiguousarray(np.repeat(rows[0], 200, axis=0))
    features = imka.RandomFeatures(n_components=4).fit(x)
    assert np.shares_memory(features._check_rows(x), x)


def test_feature_names_and_html(rows):
    features = imka.RandomFeatures(n_components=3).fit(rows[0])
    names = features.get_feature_names_out()
    assert list(names) == ["randomfeatures0", "randomfeatures1", "randomfeatures2", "randomfeatures3"]
    assert features.transform(rows[0]).shape == (400, 4)
    assert "RandomFeatures" in features._repr_html_()


def test_output_as_pandas(rows):
    pandas = pytest.importorskip("pandas")
    frame = imka.RandomFeatures(n_components=4).set_output(transform="pandas").fit_transform(rows[0])
    assert isinstance(frame, pandas.DataFrame) and list(frame)[0] == "randomfeatures0"


def test_parameters_come_from_the_library():
    parameters = inspect.signature(imka.RandomFeatures).parameters
    assert parameters["gamma"].default == 0.05 and parameters["backend"].default == "fp32"
    assert "Kernel width, as in k = exp(-gamma |x-y|^2)" in imka.RandomFeatures.__doc__
    with pytest.raises(TypeError, match="unexpected keyword argument 'gama'"):
        imka.RandomFeatures(gama=1)


def test_pipeline_and_grid_search(rows):
    x, y = rows
    pipeline = make_pipeline(StandardScaler(), imka.KernelRidgeClassifier(n_components=64))
    search = GridSearchCV(pipeline, {"kernelridgeclassifier__gamma": [0.001, 0.2]}, cv=3, n_jobs=2).fit(x, y)
    assert search.best_params_ == {"kernelridgeclassifier__gamma": 0.2}
    assert search.best_score_ > 0.85


# scikit-learn's tests of RBFSampler that make sense here: the kernel is approximated, the output has the right size,
# dtype and seed. Left out: its error for gamma='auto' (imka has 'scale' and refuses others, below), and
# fit on one dtype giving float64 features (imka's are always float32).
@pytest.mark.parametrize("sampler", ["rff", "orf", "sorf"])
def test_features_approximate_the_kernel_as_rbf_samplers_do(sampler):
    rng = np.random.RandomState(0)
    x, y = rng.random_sample((300, 50)), rng.random_sample((300, 50))
    exact = rbf_kernel(x, y, gamma=10 / 50)
    features = imka.RandomFeatures(sampler=sampler, gamma=10 / 50, n_components=2000, random_state=42).fit(x)
    error = exact - features.transform(x) @ features.transform(y).T
    assert abs(error.mean()) <= 0.01  # scikit-learn's bounds
    np.testing.assert_array_less(np.abs(error), 0.11)
    assert np.abs(error).mean() <= 0.05


def test_gamma_scale_is_that_of_rbf_sampler(rows):
    x = rows[0]
    peer = RBFSampler(gamma=1 / (x.shape[1] * x.var()), random_state=0).fit(x)
    assert imka.RandomFeatures(gamma="scale").fit(x).gamma_ == pytest.approx(peer.gamma, rel=1e-5)
    assert imka.KernelRidgeRegressor(gamma="scale").fit(x, x[:, 0]).gamma_ == pytest.approx(peer.gamma, rel=1e-5)


# scikit-learn's tests of Ridge that make sense here: agreement with the closed form, in primal and dual, several
# targets, intercept. Left out: sample weights, solvers and positive coefficients, which imka does not have.
@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("n_components", [40, 1600], ids=["primal", "dual"])
def test_regression_is_ridge_on_the_features(rows, intercept, n_components):
    x = rows[0]
    y = np.stack([np.sin(x[:, 0]), x[:, 1] + 3], axis=1)
    model = imka.KernelRidgeRegressor(n_components=n_components, alpha=0.3, intercept=intercept).fit(x, y)
    z = imka.RandomFeatures(n_components=n_components).fit_transform(x).astype(np.float64)
    peer = Ridge(alpha=0.3, fit_intercept=intercept == "free").fit(z, y)
    np.testing.assert_allclose(model.predict(x), peer.predict(z), atol=2e-4)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-3)
    assert model.predict(x).shape == (400, 2)


def test_batches_give_the_bits_of_all_rows_at_once(ringnorm):
    x, y = ringnorm.x_train, ringnorm.y_train
    whole = imka.KernelRidgeClassifier(log_ratio=2).fit(x, y)
    for size in (300, 1024, len(x)):
        parts = imka.KernelRidgeClassifier(log_ratio=2)
        for first in range(0, len(x), size):
            parts.partial_fit(x[first:first + size], y[first:first + size], classes=[0, 1])
        assert np.array_equal(parts.decision_function(ringnorm.x_test), whole.decision_function(ringnorm.x_test))


def test_batches_of_three_classes_and_numbers(rows):
    x, y = rows
    three = (y + (x[:, 2] > 1)).astype(str)
    parts = imka.KernelRidgeClassifier(n_components=16)
    parts.partial_fit(x[:200], three[:200], classes=["0", "1", "2"]).partial_fit(x[200:], three[200:])
    assert np.array_equal(parts.decision_function(x),
                          imka.KernelRidgeClassifier(n_components=16).fit(x, three).decision_function(x))
    whole = imka.KernelRidgeRegressor(n_components=16).fit(x, x[:, 0])
    numbers = imka.KernelRidgeRegressor(n_components=16).partial_fit(x[:99], x[:99, 0]).partial_fit(x[99:], x[99:, 0])
    assert np.array_equal(numbers.predict(x), whole.predict(x))
    assert np.array_equal(pickle.loads(pickle.dumps(numbers)).predict(x), whole.predict(x))
    for again in (pickle.loads(pickle.dumps(numbers)), copy.deepcopy(numbers)):
        with pytest.raises(ValueError, match="the sums over earlier rows are gone, because a pickle or copy does not hold them"):
            again.partial_fit(x, x[:, 0])


def test_a_refused_batch_changes_nothing(rows):
    x, _ = rows
    model = imka.KernelRidgeRegressor(n_components=16).partial_fit(x[:200], x[:200, 0])
    want = model.predict(x)
    for bad in ((x, x[:, :2]), (x[:, :3], x[:, 0]), (x * np.nan, x[:, 0]), (x, x[:5, 0])):
        with pytest.raises(ValueError):
            model.partial_fit(*bad)
        assert np.array_equal(model.predict(x), want)
    model.partial_fit(x[200:], x[200:, :1])  # a column of targets is as good as a vector
    assert np.array_equal(model.predict(x), imka.KernelRidgeRegressor(n_components=16).fit(x, x[:, 0]).predict(x))


def test_an_interrupted_batch_ends_the_stream(rows):
    x, _ = rows
    model = imka.KernelRidgeRegressor(n_components=16).partial_fit(x[:200], x[:200, 0])
    want = model.predict(x)

    class Interrupted:
        def add(self, *arguments):
            raise KeyboardInterrupt

    model._stream = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(x[200:], x[200:, 0])
    assert np.array_equal(model.predict(x), want)
    with pytest.raises(ValueError, match="or a batch was interrupted"):
        model.partial_fit(x, x[:, 0])
    assert np.array_equal(model.fit(x, x[:, 0]).predict(x), imka.KernelRidgeRegressor(n_components=16).fit(x, x[:, 0]).predict(x))


def test_partial_fit_on_a_chip_calibrates_on_the_first_batch(rows):
    x, y = rows
    model = imka.KernelRidgeClassifier(backend="hermes", fit_on="chip", n_components=64, gamma=0.2)
    model.partial_fit(x[:200], y[:200], classes=[0, 1]).partial_fit(x[200:], y[200:])
    assert model.score(x, y) > 0.85
    model.partial_fit(x[:1], y[:1])  # only the first batch needs two rows
    with pytest.raises(ValueError, match="minimum of 2"):
        clone(model).partial_fit(x[:1], y[:1], classes=[0, 1])


BAD = [
    (lambda e, x, y: e.set_params(gamma=-1).fit(x, y), "gamma: -1 is out of range; it must be > 0"),
    (lambda e, x, y: e.set_params(gamma="auto").fit(x, y), "gamma"),
    (lambda e, x, y: e.set_params(kernel="rfb").fit(x, y), "kernel.*rbf"),
    (lambda e, x, y: e.set_params(n_components=0).fit(x, y), "n_components: 0 is out of range"),
    (lambda e, x, y: e.set_params(n_components=8, log_ratio=2).fit(x, y), "n_components and log_ratio both"),
    (lambda e, x, y: e.set_params(backend="hermess").fit(x, y), "'hermess' is not a known backend"),
    (lambda e, x, y: e.set_params(n_jobs=0).fit(x, y), "n_jobs: 0"),
    (lambda e, x, y: e.set_params(n_jobs=1.5).fit(x, y), "n_jobs: 1.5; expected a positive integer"),
    (lambda e, x, y: e.set_params(gamma=None).fit(x, y), "gamma: None; expected number | scale"),
    (lambda e, x, y: e.set_params(random_state=-3).fit(x, y), "random_state: -3"),
    (lambda e, x, y: e.set_params(random_state=2**64).fit(x, y), "random_state: 18446744073709551616; expected an integer"),
    (lambda e, x, y: e.fit(np.where(x > 2, np.nan, x), y), "NaN"),
    (lambda e, x, y: e.fit(x.astype(float) * 1e60, y), "too large for dtype"),
    (lambda e, x, y: e.fit(x[:, 0], y), "Expected 2D array"),
    (lambda e, x, y: e.fit(x[:5], y), "inconsistent numbers of samples"),
    (lambda e, x, y: e.fit(x, y).predict(x[:, :3]), "expecting 6 features"),
    (lambda e, x, y: e.fit(x, np.zeros_like(y)), "at least two classes; y has one class"),
    (lambda e, x, y: e.partial_fit(x, y), "classes must be passed on the first call"),
    (lambda e, x, y: e.partial_fit(x, y, classes=[1, 2]), "y has a class that was not in the classes"),
    (lambda e, x, y: e.partial_fit(x, np.zeros_like(y), classes=[0]), r"classes=\[0\]; expected at least two classes"),
    (lambda e, x, y: e.fit([["a", "b"]] * 4, [0, 1, 0, 1]), "could not convert string"),
]


@pytest.mark.parametrize("bad, message", BAD, ids=[m for _, m in BAD])
def test_bad_input_is_a_value_error_with_a_sentence(rows, bad, message):
    with pytest.raises(ValueError, match=message):
        bad(imka.KernelRidgeClassifier(), *rows)


def test_bad_weights_and_targets(rows):
    x, y = rows
    with pytest.raises(ValueError, match="'fp32' is the processor, not a chip"):
        imka.ChipProjection(backend="fp32").fit(x)
    with pytest.raises(ValueError, match="weights: a sparse matrix; call its toarray"):
        imka.ChipProjection(weights=sparse.identity(6)).fit(x)
    with pytest.raises(ValueError, match=r"weights: shape \(5, 5\); expected \(6, n_outputs\)"):
        imka.ChipProjection(weights=np.eye(5)).fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="y has a value that is too large for float32"):
            imka.KernelRidgeRegressor().fit(x, 1e300 * x[:, 0].astype(float))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=IDS)
def test_not_fitted(estimator, rows):
    with pytest.raises(NotFittedError):
        outputs(clone(estimator), rows[0])


def test_a_model_file_can_be_predicted_with_the_program(rows, tmp_path):
    x, y = rows
    model = imka.KernelRidgeClassifier(n_components=32).fit(x, y)
    model.save(tmp_path / "model.safetensors")
    scores = imka.run(tmp_path / "model.safetensors", x)["scores"]
    assert np.array_equal(scores[:, 0], model.decision_function(x))
    with pytest.raises(OSError):
        model.save(tmp_path / "missing" / "model.safetensors")
