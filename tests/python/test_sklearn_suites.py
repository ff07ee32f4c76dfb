"""scikit-learn's own tests of RBFSampler and Ridge, run on imka's classes.

The functions are those of the installed scikit-learn; only the class that they test is replaced. Functions that are left
out are listed with the reason, and a test checks that the lists are complete.
"""
import inspect
import re

import numpy as np
import pytest

import imka

pytest.importorskip("sklearn")
SAMPLERS = pytest.importorskip("sklearn.tests.test_kernel_approximation")
RIDGES = pytest.importorskip("sklearn.linear_model.tests.test_ridge")


class RBFSampler(imka.RandomFeatures):
    """RandomFeatures with the names that scikit-learn's tests read."""

    @property
    def _gamma(self):
        return self.gamma_


class Ridge(imka.KernelRidgeRegressor):
    """Ridge regression on as many random features as X has columns, with the parameters of scikit-learn's Ridge."""

    def __init__(self, alpha=1.0, fit_intercept=True):
        super().__init__(alpha=alpha, intercept="free" if fit_intercept else "none", kernel="arccos1")
        self.fit_intercept = fit_intercept

    def fit(self, X, y):
        self.n_components = X.shape[1]
        return super().fit(X, y)


RUN_SAMPLERS = ["test_rbf_sampler", "test_rbf_sampler_gamma_scale", "test_input_validation", "test_get_feature_names_out"]
SKIPPED_SAMPLERS = {
    "fitted_attributes_dtype": "directions are float32 whatever X is, and there is no random_offset_: a direction has cos and sin",
    "dtype_equivalence": "reads random_offset_; test_directions_do_not_depend_on_the_type_of_x does the same for omega_",
}
OF_OTHER_SAMPLERS = "polynomial|chi2|nystroem|additivechi2"


@pytest.fixture
def ours(monkeypatch):
    monkeypatch.setattr(SAMPLERS, "RBFSampler", RBFSampler)
    monkeypatch.setattr(RIDGES, "Ridge", Ridge)


@pytest.mark.parametrize("name", [n for n in RUN_SAMPLERS if n != "test_get_feature_names_out"])
def test_of_rbf_sampler(ours, name):
    function = getattr(SAMPLERS, name)
    sparse = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]  # containers of sparse rows
    for arguments in sparse[0].args[1] if sparse else [None]:
        function(arguments) if sparse else function()


def test_of_feature_names():
    SAMPLERS.test_get_feature_names_out(imka.RandomFeatures)


def test_directions_do_not_depend_on_the_type_of_x():
    x = np.array([[1, 2], [3, 4], [5, 6]])
    a, b = (imka.RandomFeatures(random_state=42).fit(x.astype(t)).omega_ for t in (np.float32, np.float64))
    assert a.dtype == np.float32 and np.array_equal(a, b)


def test_of_ridge_shapes(ours):
    if "(1, n_features)" not in inspect.getsource(RIDGES.test_ridge_shapes_type):
        pytest.skip("newer scikit-learn drops the axis of coef_ but not of intercept_ for one column of targets; imka keeps both")
    RIDGES.test_ridge_shapes_type()


def test_shapes_follow_the_targets():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    for targets, coef, intercept in ((y, (10,), ()), (y[:, None], (1, 10), (1,)), (np.c_[y, y], (2, 10), (2,))):
        model = imka.KernelRidgeRegressor(n_components=10, intercept="free").fit(x, targets)
        assert np.shape(model.coef_) == coef and np.shape(model.intercept_) == intercept
        assert model.predict(x).shape == targets.shape


def test_of_ridge_intercepts(ours):
    RIDGES.test_ridge_intercept()


@pytest.mark.parametrize("name", ["_test_ridge_diabetes", "_test_multi_ridge_diabetes"])
def test_of_ridge_on_dense_and_sparse_rows(ours, name):
    function = getattr(RIDGES, name)
    mark = [m for m in getattr(RIDGES.test_dense_sparse, "pytestmark", []) if "csr" in str(m.args)]
    if mark:
        for container in mark[0].args[1]:
            RIDGES.test_dense_sparse(function, container)
    else:
        RIDGES.test_dense_sparse(function)


def test_rows_twice_are_half_the_penalty():
    """As in scikit-learn's tests with vstacked rows, in primal and dual."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    for n_components in (10, 400):
        once, twice = (imka.KernelRidgeRegressor(n_components=n_components, alpha=a, intercept="free") for a in (0.5, 1))
        want = once.fit(x, y).predict(x)
        np.testing.assert_allclose(twice.fit(np.r_[x, x], np.r_[y, y]).predict(x), want, atol=1e-4)


def test_limits_of_the_penalty():
    """As in scikit-learn's tests of limits: the mean of y, and least squares."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)), rng.normal(size=60) + 3
    large = imka.KernelRidgeRegressor(n_components=10, alpha=1e9, intercept="free").fit(x, y)
    np.testing.assert_allclose(large.predict(x), y.mean(), rtol=1e-5)
    small = imka.KernelRidgeRegressor(n_components=10, alpha=1e-9, intercept="free").fit(x, y)
    z = np.c_[imka.RandomFeatures(n_components=10).fit_transform(x), np.ones(60)].astype(float)
    np.testing.assert_allclose(small.predict(x), z @ np.linalg.lstsq(z, y, rcond=None)[0], atol=1e-4)


RUN_RIDGES = ["test_ridge_shapes_type", "test_ridge_intercept", "test_dense_sparse"]
# Reasons by pattern, the first that matches. "Own weights": KernelRidgeRegressor weights features, not columns of X;
# test_regression_is_ridge_on_the_features (test_estimators.py) compares it with Ridge on the same features, in primal and
# dual, with and without intercept, for several targets; the two tests above check predictions as these tests do.
SKIPPED_RIDGES = {
    "sample_weight|class_weight": "no sample or class weights",
    "_cv|gcv|ridgecv|loo|best_score|cv_": "no built-in cross-validation; GridSearchCV is tested",
    "individual_penalties|per_target_alpha": "one alpha for all targets",
    "positive": "no constraint on the sign of weights",
    "solver|sag|lbfgs|sparse_cg|n_iter|convergence|cholesky": "the solver is chosen by size and has no options or iterations",
    "array_api": "computes on the processor; arrays of other libraries are tested in test_arrays.py",
    "multilabel": "no multilabel targets",
    "custom_scoring|with_scoring|metadata|score_request|asym": "tests scoring of RidgeCV and RidgeClassifierCV",
    "CenterStackOp|compute_gram|compute_covariance|gcv_mode": "tests private functions of scikit-learn",
    "dtype": "features are float32 and predictions float64 whatever X is",
    "fit_intercept_sparse": "compares solvers; dense and sparse rows are compared above",
    "arguments_validity": "tests the function ridge_regression",
    "ridge_regression|vs_lstsq|primal_dual|regularization_limits": "own weights",
}


def names_of(module):
    return {n for n in vars(module) if n.startswith("test_")}


def test_the_lists_are_complete():
    for name in names_of(SAMPLERS) - set(RUN_SAMPLERS):
        assert re.search(OF_OTHER_SAMPLERS, name) or any(p in name for p in SKIPPED_SAMPLERS), name
    for name in names_of(RIDGES) - set(RUN_RIDGES):
        assert any(re.search(p, name) for p in SKIPPED_RIDGES), name
    assert set(RUN_SAMPLERS) <= names_of(SAMPLERS) and set(RUN_RIDGES) <= names_of(RIDGES)
