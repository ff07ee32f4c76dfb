"""The package has types, as seen by mypy. conftest.py says where the package comes from."""
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

import imka

SCRIPT = ROOT / "tests/python/typed_user.py"


def test_the_package_says_that_it_has_types():
    folder = pathlib.Path(imka.__file__).parent
    assert {"py.typed", "_imka.pyi", "_estimators.pyi"} <= set(os.listdir(folder))


def test_a_users_script(tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("sklearn")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, SCRIPT]
    out = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout
    found = {int(line) for line in re.findall(r"typed_user\.py:(\d+): error", out)}
    wrong = {i for i, line in enumerate(SCRIPT.read_text().splitlines(), 1) if ")  # wrong" in line}
    assert wrong and found == wrong, out
