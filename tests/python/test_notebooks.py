"""The notebooks run, cell by cell."""
import json

import pytest
from conftest import ROOT

pytest.importorskip("sklearn")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path, tmp_path, monkeypatch):
    code = ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    if any("import torch" in cell for cell in code):
        pytest.importorskip("torch")
    if any("to_pandas" in cell for cell in code):
        pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in code:
        exec(compile(cell, path.name, "exec"), names)
    assert names["figure"].axes[0].lines or names["figure"].axes[0].containers
    matplotlib.pyplot.close("all")
