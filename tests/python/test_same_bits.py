"""The same settings give the same bits from Python, C++ and the program: values of tests/golden/."""
import hashlib
import json
import math

import numpy as np
import pytest
from conftest import ROOT

import imka

pytest.importorskip("sklearn")
# On a different kind of processor, sums round differently (tests/golden/outputs.py).
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def exact(golden):
    doctor = imka.command("doctor").to_dict()
    return {name: doctor[name] for name in golden["machine"]} == golden["machine"]


def same(got, want, exact):
    assert got == want if exact else abs(got - want) <= TOLERANCE * (1 + abs(want))


def inputs(rows):
    """The input file of the golden runs."""
    values = [[f"{((r * 7919 + c * 104729 + r * c * 31) % 2001 - 1000) / 400:.4f}" for c in range(20)] for r in range(rows)]
    return np.array(values, dtype=np.float64).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 7, 255, 256, 300])
@pytest.mark.parametrize("backend", ["fp32", "hermes"])
@pytest.mark.parametrize("sampler", ["orf", "sorf"])
def test_features(golden, exact, rows, backend, sampler):
    features = imka.RandomFeatures(gamma=0.05, sampler=sampler, n_components=320, random_state=4, backend=backend)
    want = golden["results"][f"features/{rows}/{backend}/{sampler}"]
    if "file" not in want:  # a chip cannot be calibrated with one row
        with pytest.raises(ValueError, match="minimum of 2"):
            features.fit(inputs(rows))
        return
    z, want = features.fit_transform(inputs(rows)), want["file"]
    flat = z.ravel()
    assert z.dtype == np.float32
    if exact:
        assert hashlib.sha256(flat.tobytes()).hexdigest() == want["sha256"]
        assert flat[:: max(1, len(flat) // 16)].tolist() == want["values"]
    else:
        np.testing.assert_allclose(flat[:: max(1, len(flat) // 16)], want["values"], atol=TOLERANCE)


def test_directions():
    """The values that tests/omega/golden_test.cpp compares with, computed by a separate program, tests/golden/make_omega.py."""
    cases = [c for c in json.loads((ROOT / "tests/golden/omega.json").read_text()) if c["recipe"]["convention"] == "standard"]
    assert len(cases) >= 14
    for case in cases:
        recipe, want = case["recipe"], np.array(case["omega"], dtype=np.float32)
        settings = {name: recipe[name] for name in ("kernel", "gamma", "sampler", "norms", "truncation")}
        log_ratio = math.log2(recipe["m"] / recipe["d"])
        features = imka.RandomFeatures(log_ratio=log_ratio, random_state=recipe["seed"], **settings)
        omega = features.fit(np.ones((2, recipe["d"]))).omega_
        # rff and sorf use only IEEE operations; orf uses LAPACK.
        np.testing.assert_allclose(omega, want, rtol=1e-6 if recipe["sampler"] == "orf" else 0,
                                   atol=1e-6 if recipe["sampler"] == "orf" else 0, err_msg=str(recipe))


@pytest.mark.parametrize("kernel", ["rbf", "arccos1"])
@pytest.mark.parametrize("sampler", ["rff", "orf", "sorf"])
def test_accuracy(golden, exact, ringnorm, kernel, sampler):
    want = golden["results"][f"ridge/{kernel}/{sampler}"]["accuracy"]["values"]
    for seed in (0, 1):
        model = imka.KernelRidgeClassifier(kernel=kernel, sampler=sampler, log_ratio=2, random_state=seed)
        same(model.fit(ringnorm.x_train, ringnorm.y_train).score(ringnorm.x_test, ringnorm.y_test), want[seed], exact)


CHIPS = [
    ("ridge/hermes", {"backend": "hermes"}),
    ("ridge/rram-wan", {"backend": "rram-wan"}),
    ("ridge/hermes/fit_on_chip", {"backend": "hermes", "fit_on": "chip"}),
    ("ridge/hermes/fit_on_chips", {"backend": "hermes", "fit_on": "chips", "fit_draws": 2}),
    ("ridge/hermes/aged/global", {"backend": "hermes", "read_seconds": 86400, "compensation": "global"}),
    ("ridge/pulses", {"backend": "hermes", "programming": "verify", "chip_seed": 9}),
    ("ridge/replicas", {"backend": "hermes", "replicas": 3, "lost_rows": 10}),
    ("ridge/mitigated", {"backend": "hermes", "output_calibration": "centred", "replicas": 3, "replication": "average",
                         "range_scaling": True}),
    ("ridge/alpha_clip", {"backend": "hermes", "input_alpha": 2.5, "chip_set": "core.adc_noise=2"}),
]


@pytest.mark.parametrize("name, settings", CHIPS)
def test_accuracy_on_a_chip(golden, exact, name, settings):
    data = imka.datasets.load("twonorm")
    model = imka.KernelRidgeClassifier(log_ratio=1, random_state=1, **settings).fit(data.x_train, data.y_train)
    same(model.score(data.x_test, data.y_test), golden["results"][name]["accuracy"]["values"][1], exact)


def test_verbs(golden, exact):
    got = imka.gram(dataset="ringnorm", log_ratio=1, gram_rows=150, seeds=[0, 1])
    for g, w in zip(got.gram_error["values"], golden["results"]["gram/rbf/orf"]["gram_error"]["values"]):
        same(g, w, exact)


def test_threads_do_not_change_bits(ringnorm):
    z = [imka.RandomFeatures(n_jobs=n).fit(ringnorm.x_train).transform(ringnorm.x_test) for n in (1, 3)]
    assert np.array_equal(*z)
