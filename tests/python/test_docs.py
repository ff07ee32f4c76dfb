"""The Python blocks of the pages run, and print what the comments after print say."""
import contextlib
import io
import re
import subprocess
import sys

import pytest
from conftest import ROOT

import imka

pytest.importorskip("sklearn")
PAGES = ["README.md", "docs/python.md", "docs/coming-from-aihwkit.md", "docs/coming-from-crosssim.md"]


def blocks_of(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def expected_of(code):
    """What `print(...)  # TEXT` lines should print; None if a print has no comment."""
    prints = [line for line in code.splitlines() if re.match(r"\s*print\(", line)]
    texts = [line.split("  # ", 1)[1] for line in prints if "  # " in line]
    return texts if len(texts) == len(prints) else None


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = blocks_of(page)
    assert blocks
    for code in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, page, "exec"), names)
        expected = expected_of(code)
        if expected is not None:
            assert out.getvalue().splitlines() == expected, code


@pytest.mark.parametrize("page", [p for p in PAGES if "coming-from" in p])
def test_constants_that_pages_name_exist(page):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"[`\"]((?:core|device)\.\w+)[`\"]", text))
    chips = set(re.findall(r'imka\.Chip\("([\w-]+)"', text)) | set(re.findall(r"presets? `([\w-]+)`", text))
    assert len(named) >= 10 and len(chips) >= 2 and chips <= set(imka.Chip.names())
    assert named <= {constant["name"] for constant in imka.Chip("hermes").constants().constants}


def test_defaults_that_differ_from_rbf_samplers():
    from sklearn.kernel_approximation import RBFSampler

    ours, theirs = imka.RandomFeatures(), RBFSampler()
    assert (ours.gamma, ours.random_state, ours.n_components) == (0.05, 0, None)
    assert ours.fit([[0] * 3] * 2).omega_.shape == (48, 3)
    assert (theirs.gamma, theirs.random_state, theirs.n_components) == (1, None, 100)


def test_generated_files_are_current():
    done = subprocess.run([sys.executable, ROOT / "python/generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
