"""Tests of the Python package. They run against the installed package, or a build tree on PYTHONPATH."""
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def golden():
    """Outputs of the program that must not change (tests/golden/outputs.py)."""
    return json.loads((ROOT / "tests/golden/outputs.json").read_text())


@pytest.fixture(scope="session")
def ringnorm():
    import imka

    return imka.datasets.load("ringnorm")
