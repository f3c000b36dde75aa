"""Committed notebooks are their scripts, which run; their outputs are there, and small."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.site_scripts import load_site_script

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples/notebooks").glob("*.py"))
MOST_BYTES = 400_000
SLOW = ("which_augmentation", "your_frozen_model")  # several processes; many views


@pytest.fixture(scope="module")
def notebooks() -> ModuleType:
    import_module("matplotlib.font_manager")  # on a new machine it says that it makes a cache
    return load_site_script("notebooks")


def test_there_are_the_three_notebooks_and_no_others() -> None:
    names = ["which_augmentation", "your_frozen_model", "your_loop"]
    assert [path.stem for path in SCRIPTS] == names
    assert sorted(path.stem for path in SCRIPTS[0].parent.glob("*.ipynb")) == names


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_script_and_their_outputs(
    script: Path, notebooks: ModuleType
) -> None:
    file = script.with_suffix(".ipynb")
    kept = json.loads(file.read_text())
    assert (kept["nbformat"], kept["nbformat_minor"]) == (4, 5)
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in kept["cells"]]
    read = notebooks.read_cells(script.read_text())
    words = f"run `python docs/.site/notebooks.py {script.stem}`"
    assert cells == [(cell.kind, cell.source) for cell in read], words
    outputs = [output for cell in kept["cells"] for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", ()) for output in outputs) >= 2
    assert not any(output["output_type"] == "error" for output in outputs)
    assert file.stat().st_size < MOST_BYTES


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "script",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in SLOW)) for p in SCRIPTS],
)
def test_a_script_runs_and_shows_what_the_notebook_has_in_the_same_places(
    script: Path, notebooks: ModuleType
) -> None:
    cells = notebooks.read_cells(script.read_text())
    shown = notebooks.run_cells(cells, quick=True)
    kept = json.loads(script.with_suffix(".ipynb").read_text())["cells"]
    assert [len(outputs) for outputs in shown] == [len(cell.get("outputs", ())) for cell in kept]


def test_a_notebook_becomes_a_page_with_its_pictures(
    tmp_path: Path, notebooks: ModuleType
) -> None:
    script = (
        "# %% [markdown]\n# # Title\n#\n# Words.\n\n"
        "# %% quick: x = 3\nx = 2\nprint(x)\n\n# %%\nx\n"
        "# %%\nfrom matplotlib import pyplot as plt\n_ = plt.subplots()\n"
    )
    cells = notebooks.read_cells(script)
    assert [cell.kind for cell in cells] == ["markdown", "code", "code", "code"]
    file = tmp_path / "short.ipynb"
    file.write_text(notebooks.to_notebook(cells, notebooks.run_cells(cells, quick=True)))
    page, pictures = notebooks.render_markdown(file)
    assert page.startswith(
        "# Title\n\nWords.\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n2\n```"
    )
    assert "```text\n3\n```" in page
    assert [*pictures] == ["short_3_0.png"]
    assert "![What the cell shows](short_3_0.png)" in page
    assert pictures["short_3_0.png"].startswith(b"\x89PNG")
