"""Every example runs, and stays short."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NEEDED = {"hugging_face_trainer": ("transformers", "datasets"), "timm_loop": ("timm",)}


@pytest.mark.filterwarnings("default")  # other libraries warn of each other
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_example_runs_and_prints(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for package in NEEDED.get(path.stem, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.setenv("SMOKE", "1")
    monkeypatch.setattr(sys, "argv", [str(path)])  # not the options of pytest
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert len(path.read_text().splitlines()) < 80
