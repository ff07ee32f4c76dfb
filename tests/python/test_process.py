"""Threads, processes, signals, memory, and life without scikit-learn."""
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import imka

pytest.importorskip("sklearn")


def python(code, **environment):
    """Runs code in a new interpreter; returns its output."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_scikit_learn_the_rest_works():
    out = python("""
        import sys
        for name in ("sklearn", "scipy", "pandas", "matplotlib", "tqdm", "torch"):
            sys.modules[name] = None
        import imka, numpy as np
        print(imka.Chip("ideal").program(np.eye(4), np.eye(4)).mvm(np.eye(4)).shape)
        print(imka.datasets.load("ringnorm").x_train.shape, imka.cost(network="ks").name)
        try:
            imka.RandomFeatures
        except ImportError as error:
            print(error)
        """)
    assert out.splitlines() == ["(4, 4)", "(3700, 20) ks", "imka.RandomFeatures needs scikit-learn: pip install scikit-learn"]


def test_fork_after_use_works():
    assert python("""
        import os, sys, numpy as np, imka
        x = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
        model = imka.RandomFeatures(n_components=64, n_jobs=4).fit(x)
        want = model.transform(x)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(imka.RandomFeatures(n_components=64, n_jobs=4).fit_transform(x), want) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """) == "0\n"


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_workers(backend):
    joblib = pytest.importorskip("joblib")
    x = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    want = [imka.RandomFeatures(random_state=s).fit_transform(x) for s in range(4)]
    with joblib.parallel_backend(backend, n_jobs=2):
        got = joblib.Parallel()(joblib.delayed(imka.RandomFeatures(random_state=s).fit_transform)(x) for s in range(4))
    assert all(np.array_equal(g, w) for g, w in zip(got, want))


def test_no_setting_of_the_process_changes():
    out = python("""
        import os, signal, numpy as np
        np.ones((300, 300)) @ np.ones((300, 300))
        try:
            from threadpoolctl import threadpool_info
        except ImportError:
            threadpool_info = lambda: []
        def state():
            pools = sorted((p["filepath"], p["num_threads"]) for p in threadpool_info() if "imka" not in p["filepath"])
            return dict(os.environ), pools, [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)]
        before = state()
        import imka
        imka.KernelRidgeClassifier().fit(np.random.rand(5000, 5), np.arange(5000) % 2)
        imka.gram(dataset="ringnorm")
        after = state()
        assert before[0] == after[0] and before[2] == after[2]
        assert set(before[1]) <= set(after[1]), (before[1], after[1])
        """)
    assert out == ""


def test_omp_num_threads_limits_threads():
    from imka._exec import thread_count

    assert python("from imka._exec import thread_count; print(thread_count(None))", OMP_NUM_THREADS="1") == "1\n"
    assert thread_count(3) == 3
    assert thread_count(-1) == len(os.sched_getaffinity(0))


def test_ctrl_c_stops_a_computation():
    x = np.random.default_rng(0).normal(size=(20000, 64)).astype(np.float32)
    model = imka.KernelRidgeClassifier(n_components=12000)  # minutes of work
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, np.arange(len(x)) % 2)
    assert time.monotonic() - begin < 30
    assert imka.RandomFeatures().fit_transform(x[:10]).shape == (10, 2048)


def test_ctrl_c_stops_a_transform():
    x = np.zeros((100000, 4), np.float32)
    model = imka.RandomFeatures(n_components=4000, n_jobs=1).fit(x)  # 1.6 GB, three parts
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model.transform(x)


def test_parts_of_a_long_transform_have_the_bits_of_the_whole():
    x = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    model = imka.RandomFeatures(n_components=100000).fit(x)  # two parts
    z = model.transform(x)
    assert np.array_equal(z[1400:1402], model.transform(x[1400:1402]))
    assert np.array_equal(z[-1:], model.transform(x[-1:]))


def test_other_python_threads_run_meanwhile():
    x = np.random.default_rng(0).normal(size=(50000, 22)).astype(np.float32)
    model = imka.RandomFeatures(n_components=1408).fit(x)
    ticks = []
    worker = threading.Thread(target=model.transform, args=(x,))
    worker.start()
    while worker.is_alive():
        ticks.append(time.monotonic())
        time.sleep(0.001)
    assert len(ticks) > 5


def test_one_model_in_several_threads():
    x = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
    model = imka.RandomFeatures(n_components=64, backend="hermes").fit(x)
    want = model.transform(x)
    results = [None] * 4

    def work(i):
        results[i] = model.transform(x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(np.array_equal(r, want) for r in results)


def test_progress_is_shown_if_asked_for(capfd):
    x = np.random.default_rng(0).normal(size=(9000, 8))
    y = x[:, 0]
    imka.KernelRidgeRegressor(n_components=600).fit(x, y)
    assert capfd.readouterr() == ("", "")
    imka.KernelRidgeRegressor(n_components=600, verbose=1).fit(x, y)
    out, err = capfd.readouterr()
    assert out == "" and "fit" in err


def test_progress_that_fails_does_not_stop_the_work(monkeypatch, rows=np.ones((10, 2), np.float32)):
    from imka import _imka

    class Broken:
        def __getattr__(self, name):
            raise RuntimeError("broken")

    monkeypatch.setattr(sys, "unraisablehook", lambda error: None)
    y = np.arange(10, dtype=np.float32).reshape(-1, 1)
    assert _imka.fit_regressor({}, rows, y, 0, _imka.Exec(1, Broken())).n_features_in == 2


def test_the_program():
    done = subprocess.run([sys.executable, "-m", "imka", "gram", "--dataset", "ringnorm", "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and '"gram_error"' in done.stdout
    bad = subprocess.run([sys.executable, "-m", "imka", "gram", "--gamma", "-1"], capture_output=True, text=True)
    assert bad.returncode == 2 and "it must be > 0" in bad.stderr
