"""The Python blocks of the pages run, and print what the comments behind print say."""
import contextlib
import io
import re
import subprocess
import sys

import pytest
from conftest import ROOT

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


def test_generated_files_are_current():
    done = subprocess.run([sys.executable, ROOT / "python/generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
