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
from conftest import ROOT

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
        attention = imka.attention.KernelAttention
        for call in (imka.cost(network="ks").to_pandas, imka.cost(network="ks").plot,
                     lambda: imka.attention.to_torch(attention()), lambda: attention(random_state=None)(*3 * [np.eye(4)])):
            try:
                call()
            except ImportError as error:
                print(error)
        """)
    assert out.splitlines() == ["(4, 4)", "(3700, 20) ks", "imka.RandomFeatures needs scikit-learn: pip install scikit-learn",
                                "to_pandas needs pandas: pip install pandas", "plot needs matplotlib: pip install matplotlib",
                                "to_torch needs torch: pip install torch",
                                "random_state=None needs scikit-learn: pip install scikit-learn"]


@pytest.mark.parametrize("backend", ["fp32", "hermes"])
def test_fork_after_use_works(backend):
    assert python(f"""
        import os, numpy as np, imka
        x = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
        def work():
            features = imka.RandomFeatures(n_components=64, n_jobs=4, backend="{backend}").fit_transform(x)
            ridge = imka.KernelRidgeRegressor(n_components=64, n_jobs=4, backend="{backend}").fit(x, x[:, 0])
            gram = imka.gram(dataset="ringnorm", seeds="0", n_jobs=4).gram_error["values"]
            return features, ridge.predict(x), imka.attention.exact_attention(x, x, x), gram
        want = work()
        child = os.fork()
        if child == 0:
            os._exit(0 if all(np.array_equal(a, b) for a, b in zip(work(), want)) else 1)
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


def long_calls():
    """Calls that take many seconds, by name. Each prepares its inputs when it is called."""
    from imka.attention import KernelAttention, exact_attention

    rng = np.random.default_rng(0)
    x = rng.normal(size=(400_000, 20)).astype(np.float32)
    tokens = rng.normal(size=(1, 1, 80_000, 64)).astype(np.float32)
    ridge = imka.KernelRidgeRegressor(n_components=512, truncation=3.0).fit(x[:1000], x[:1000, 0])
    deployed = imka.deploy(ridge, x[:500], backend="hermes").model
    programmed = imka.Chip("hermes").program(rng.normal(size=(20, 2000)), x[:500])
    features = imka.RandomFeatures(n_components=4000, n_jobs=1).fit(x)
    return {
        "fit": lambda: imka.KernelRidgeRegressor(n_components=8_000).fit(x, x[:, 0]),
        "transform": lambda: features.transform(x),
        "drawing directions": lambda: imka.RandomFeatures(n_components=2_000_000).fit(np.zeros((2, 400))),
        "exact attention": lambda: exact_attention(tokens, tokens, tokens),
        "kernelised attention": lambda: KernelAttention(n_directions=2000)(tokens, tokens, tokens),
        "products on a chip": lambda: programmed.mvm(x),
        "a network": lambda: imka.run(ridge, x),
        "a network on a chip": lambda: deployed.run(x),
        "deploy": lambda: imka.deploy(ridge, x, backend="hermes", calibration_inputs=300_000),
        "gram": lambda: imka.gram(dataset="ringnorm", log_ratio=6, gram_rows=3000, seeds="0..99"),
        "chip measure": lambda: imka.Chip("hermes").measure(rows=256, cols=256, seeds="0..999"),
        "evaluate": lambda: imka.evaluate(ROOT / "tests/hostile/performer_tiny.safetensors", samples=1_000_000),
        "sweep": lambda: imka.sweep("smoke", output="runs", set={"dataset": "ringnorm", "seeds": "0..9999"}),
    }


LONG_CALLS = ["fit", "transform", "drawing directions", "exact attention", "kernelised attention", "products on a chip",
              "a network", "a network on a chip", "deploy", "gram", "chip measure", "evaluate", "sweep"]


@pytest.fixture(scope="module")
def calls():
    return long_calls()


@pytest.fixture
def ctrl_c():
    """Sets Python's handler, even if the tests were started in the background, where shells ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", LONG_CALLS)
def test_ctrl_c_stops(calls, ctrl_c, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sent = []

    def interrupt():
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        calls[name]()
        timer.join()
    # Processor time, which does not depend on the load of the machine; about 1 s at most.
    assert time.process_time() - sent[0] < 5
    assert imka.RandomFeatures().fit_transform(np.zeros((10, 2))).shape == (10, 64)  # all is well


def test_parts_of_a_long_transform_have_the_bits_of_the_whole():
    x = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    model = imka.RandomFeatures(n_components=100000).fit(x)  # two parts
    z = model.transform(x)
    assert np.array_equal(z[1400:1402], model.transform(x[1400:1402]))
    assert np.array_equal(z[-1:], model.transform(x[-1:]))


def work_on_a_verb():
    return lambda: imka.gram(dataset="ringnorm", seeds="0..19")


def work_on_features():
    x = np.random.default_rng(0).normal(size=(150_000, 22)).astype(np.float32)
    model = imka.RandomFeatures(n_components=1408).fit(x)
    return lambda: model.transform(x)


def work_on_attention():
    tokens = np.random.default_rng(0).normal(size=(1, 1, 8000, 64)).astype(np.float32)
    return lambda: imka.attention.exact_attention(tokens, tokens, tokens)


def work_on_products():
    x = np.random.default_rng(0).normal(size=(300_000, 64)).astype(np.float32)
    chip = imka.Chip("hermes").program(np.eye(64), x[:500])
    return lambda: chip.mvm(x)


@pytest.mark.parametrize("make", [work_on_features, work_on_a_verb, work_on_attention, work_on_products])
def test_other_python_threads_run_meanwhile(make):
    """If a call kept the lock of the interpreter, the other thread could tick only before and after it."""
    work = make()
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(None)
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    most = 0
    try:
        # On a busy machine the other thread may have to wait for a processor during some calls.
        for _ in range(500):
            before = len(ticks)
            work()
            most = max(most, len(ticks) - before)
            if most > 20:
                break
    finally:
        stop.set()
        other.join()
    assert most > 20


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


PROGRESS = """
    import sys, numpy as np
    {before}
    import imka
    x = np.random.default_rng(0).normal(size=(20000, 8))
    imka.KernelRidgeRegressor(n_components=1200, verbose=1).fit(x, x[:, 0])
    imka.gram(dataset="ringnorm", seeds="0..9", verbose=1)
    print("done")
    """


def progress_of(before):
    """Standard error of a fit and of a verb that show progress, after other statements."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRESS).replace("{before}", before)], capture_output=True,
                          text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return done.stderr


def test_progress_with_tqdm():
    pytest.importorskip("tqdm")
    err = progress_of("")
    assert "fit:" in err and "seeds:" in err and "it/s" in err and "%|" in err


def test_progress_without_tqdm():
    err = progress_of("sys.modules['tqdm'] = None")
    assert "%|" not in err
    lines = err.splitlines()
    assert {line.split(":")[0] for line in lines} == {"fit", "seeds"} and all(line.endswith(" %") for line in lines), err


@pytest.mark.parametrize("before", ["sys.stderr.close()", "sys.modules['tqdm'] = None; sys.stderr.close()",
                                    "sys.stderr = None"])
def test_progress_with_closed_standard_error(before):
    progress_of(before)


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
