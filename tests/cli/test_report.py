"""``instaaug report`` and ``instaaug inspect``."""

import inspect
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from instaaug.report.live.server import LiveServer
from instaaug.report.page import diagnosis
from instaaug.stats import mcnemar_p_value
from tests.support.command_line import QUICK, CommandLine, run_quietly
from tests.support.picture_folders import truncated_jpeg

HOSTILE = (
    "\"><img src=x onerror=alert(1)>",
    "<script>alert(1)<",
    "'; alert(1); '",
    "ünï\u202ecode \u0301",
    "x" * 240,
)  # fmt: skip


def content_of(page: Path) -> dict[str, Any]:
    """What the page was told."""
    html = page.read_text(encoding="utf-8")
    (text,) = re.findall(r"<script[^>]*application/json[^>]*>(.*?)</script>", html, re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture(autouse=True)
def small_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing them takes most of a report's time."""
    for name in ("N_SHOWN", "N_SAMPLES"):
        monkeypatch.setattr(f"instaaug.runs.reporting.{name}", 2)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a folder whose names want to be something else."""
    folder = tmp_path_factory.mktemp("hostile")
    random = np.random.default_rng(0)
    for number, name in enumerate(HOSTILE):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(6):
            pixels = random.integers(40 * number, 40 * number + 40, (16, 16, 3), dtype=np.uint8)
            file = f"{i}{HOSTILE[(number + i) % 4]}.png"
            Image.fromarray(pixels).save(folder / "images" / name / file)
    run_quietly(folder, "train", folder / "images", "--out", folder / "run", *QUICK)
    return folder


@pytest.fixture(scope="module")
def plain_run(shop: Path) -> Path:
    """A run on the pets without augmentation."""
    command = ("train", shop / "pets", "--method", "none", "--out", shop / "none", *QUICK)
    run_quietly(shop, *command)
    return shop / "none"


def test_a_run_gets_a_page_and_figures(instaaug: CommandLine, shop: Path, tmp_path: Path) -> None:
    done = instaaug("report", shop / "run", "--out", tmp_path / "out", "--views", 3)
    assert done.code == 0, done.err
    page = tmp_path / "out" / "index.html"
    content = content_of(page)
    n_test = json.loads((shop / "run" / "results.json").read_text())["n_test"]
    assert len(content["inputs"]) == content["n_test"] == n_test
    assert content["classes"] == ["cat", "dog", "ibis"]
    (run,) = content["runs"]
    assert run["name"] == "run"
    assert run["n_views"] == 3
    assert len(run["results"]) == 2
    assert f"{n_test} inputs" in done.out
    assert str(page) in done.out
    figures = {file.name for file in (tmp_path / "out" / "figures").iterdir()}
    assert figures == {f"{n}.{e}" for n in ("training_curves", "inputs") for e in ("png", "svg")}


def test_several_runs_stand_side_by_side(
    instaaug: CommandLine,
    shop: Path,
    plain_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INSTAAUG_CACHE", str(shop / "cache"))
    done = instaaug("report", shop / "run", plain_run, "--views", 2)
    assert done.code == 0, done.err
    content = content_of(tmp_path / "report" / "index.html")
    learned, plain = content["runs"]
    assert (learned["name"], plain["name"]) == ("run", "none")
    assert len(learned["inputs"]) == len(plain["inputs"]) == len(content["inputs"])
    assert (learned["n_views"], plain["n_views"]) == (2, 0)
    assert [figure["title"] for figure in content["figures"]] == ["Leaderboard"]
    (note,) = [row["note"] for row in learned["results"] if row["is_main"]]
    assert note == paired_words(content)
    assert [row["note"] for row in plain["results"]] == [""]  # the baseline
    figures = {file.name for file in (tmp_path / "report" / "figures").iterdir()}
    assert {"leaderboard.png", "1-run.inputs.png", "2-none.training_curves.svg"} <= figures
    (tmp_path / "report" / "figures" / "mine.png").touch()
    assert instaaug("report", plain_run, "--out", "report").code == 0
    left = {file.name for file in (tmp_path / "report" / "figures").iterdir()}
    assert left == {"mine.png", "training_curves.png", "training_curves.svg"}


def paired_words(content: dict[str, Any]) -> str:
    """Counted by hand from what the page shows."""
    learned, plain = content["runs"]
    only = [0, 0]
    for shown, one, other in zip(
        content["inputs"], learned["inputs"], plain["inputs"], strict=True
    ):
        a, b = (
            run["classes"][int(np.argmax(row))] == shown["target"]
            for run, row in ((one, one["merged"][-1]), (other, other["plain"]))
        )
        only[0] += a and not b
        only[1] += b and not a
    p = mcnemar_p_value(*only)
    return (
        f"of the {len(content['inputs'])} inputs here, {only[0]} are right only with this run, "
        f"{only[1]} only with none; p = {p:.2g}"
    )


def test_a_fit_for_a_frozen_model_is_reported_on(
    instaaug: CommandLine, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTAAUG_CACHE", str(place / "cache"))
    done = instaaug("report", place / "fit", "--out", "page", "--inputs", 2)
    assert done.code == 0, done.err
    (run,) = content_of(tmp_path / "page" / "index.html")["runs"]
    assert run["keeps_original"]
    assert run["n_views"] == 4  # the most that it was fitted for
    assert [row["name"] for row in run["results"]] == ["the image", "2 views", "4 views"]
    assert first_entropies(run) == [None]  # it only ranks views
    assert run["factors"][0]["band"] is None
    assert run["headline"].startswith("Learned views on spots")
    first = run["inputs"][0]
    assert first["theta"][0][0] == [0.0, 0.0, 2.0, 2.0]
    assert first["merged"][0] == first["plain"]


def first_entropies(run: dict[str, Any]) -> Any:
    return run["inputs"][0]["entropy"]


def test_hostile_names_stay_text(instaaug: CommandLine, hostile: Path, tmp_path: Path) -> None:
    command = ("report", hostile / "run", "--out", tmp_path / "out", "--inputs", 5, "--views", 1)
    done = instaaug(*command)
    assert done.code == 0, done.err
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    assert html.count("<script") == html.count("</script>") == 2
    assert set(content_of(tmp_path / "out" / "index.html")["classes"]) == set(HOSTILE)


def test_without_matplotlib_there_is_a_page_all_the_same(
    instaaug: CommandLine, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = instaaug("report", shop / "run", "--out", tmp_path / "out", "--inputs", 2)
    assert done.code == 0, done.err
    assert "0 figures" in done.out
    assert content_of(tmp_path / "out" / "index.html")["runs"][0].get("figures", []) == []


def test_mistakes_are_told_in_a_sentence(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    assert "There is no run in 'nowhere'" in instaaug.error("report", "nowhere")
    assert "every folder once" in instaaug.error("report", shop / "run", shop / "run")
    shutil.copytree(shop / "run", tmp_path / "unfinished")
    (tmp_path / "unfinished" / "model.safetensors").unlink()
    assert "has not finished" in instaaug.error("report", "unfinished")


def test_a_live_page_is_served_until_it_is_closed(
    instaaug: CommandLine, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def serve(server: LiveServer, **_: float) -> None:
        asked.append(server.answer("/state"))
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveServer, "serve_forever", serve)
    done = instaaug("report", shop / "run", "--live")
    assert done.code == 0, done.err
    assert "writes the full report" in done.out
    assert "Open http://127.0.0.1:" in done.out
    assert done.out.endswith("The page is closed; the run goes on without it.\n")
    assert asked[0] is not None
    assert b'"status":"finished"' in asked[0][1]
    assert "one folder with --live" in instaaug.error("report", "a", "b", "--live")
    with LiveServer("a") as other:
        error = instaaug.error("report", "a", "--live", "--port", other.server_port)
    assert "`port` must be free" in error


def test_inspect_draws_images_that_the_run_has_never_seen(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        Image.fromarray(np.full((40, 30, 3), 90, np.uint8)).save(tmp_path / f"{name}.png")
    done = instaaug("inspect", shop / "run", "one.png", "two.png", "--out", "seen.jpg")
    assert done.code == 0, done.err
    assert done.out == "Look at seen.jpg.\n"
    with Image.open(tmp_path / "seen.jpg") as picture:
        assert picture.width > 500


def test_a_run_without_augmentation_has_nothing_to_inspect(
    instaaug: CommandLine, shop: Path, plain_run: Path
) -> None:
    picture = next((shop / "pets" / "cat").iterdir())
    assert "leaves them as they are" in instaaug.error("inspect", plain_run, picture)


def test_many_images_fill_several_pictures(
    instaaug: CommandLine, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instaaug.runs.inference.MOST_INPUTS", 2)
    shutil.copytree(shop / "run", tmp_path / "mine")
    files = sorted((shop / "pets" / "cat").iterdir())[:3]
    done = instaaug("inspect", "mine", *files, "--samples", 2)
    assert done.code == 0, done.err
    names = sorted(file.name for file in (tmp_path / "mine" / "report").iterdir())
    assert names == ["inspect-2.png", "inspect.png"]


def test_inspect_names_what_it_cannot_read(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    truncated_jpeg(tmp_path / "broken.jpg")
    assert "broken.jpg" in instaaug.error("inspect", shop / "run", "broken.jpg")
    assert "There is no image 'none.png'" in instaaug.error("inspect", shop / "run", "none.png")
    Image.new("RGB", (20, 20)).save(tmp_path / "fine.png")
    assert "`path` must end in" in instaaug.error(
        "inspect", shop / "run", "fine.png", "--out", "seen.txt"
    )


def test_advice_names_options_that_exist(instaaug: CommandLine) -> None:
    named = set(re.findall(r"--[a-z_]+(?:\.[a-z_]+)?", inspect.getsource(diagnosis)))
    known = instaaug("train", "--help").out + instaaug("tta", "fit", "--help").out
    assert len(named) > 8
    assert named - set(re.findall(r"--[a-z_.]+", known)) == {"--method.strength"}  # by method
