"""What the page is told of several runs: paired tests, room for pictures, what is hidden."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug.errors import ArgumentError, NonFiniteError
from instaaug.report.page.build import page_html
from instaaug.report.records import read_record
from instaaug.runs.loaded import LoadedRun, load_run
from instaaug.runs.observing import observe_run
from instaaug.runs.reporting import MOST_BYTES, ReportedRun, page_content
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from instaaug.stats import mcnemar_p_value
from tests.support.picture_folders import plain_folder

CONFIG = TrainSettings.from_mapping(
    {
        "data": "sprites",
        "trainer.max_epochs": 1,
        "data.batch_size": 16,
        "data.image_size": 16,
        "trainer.accelerator": "cpu",
        "views.n_views": 3,
    }
)


def trained(folder: Path, **settings: Any) -> LoadedRun:
    train(CONFIG.override({**settings}), folder)
    return load_run(folder)


def column(run: LoadedRun, n_views: int = 4) -> ReportedRun:
    images = run.load_test_images(None)
    seen = observe_run(run, images, n_views=n_views, n_shown=2)
    return ReportedRun(run.path.name, run, read_record(run.path), images, seen)


def always(one: ReportedRun, right: list[bool], *, at: int) -> ReportedRun:
    """The same run, had it been right where it is said with ``at`` views, and else nowhere."""
    targets = one.images.targets
    num_classes = one.observations.plain.shape[1]
    hits = torch.nn.functional.one_hot(targets, num_classes).float()
    misses = torch.nn.functional.one_hot((targets + 1) % num_classes, num_classes).float()
    wanted = torch.where(torch.tensor(right)[:, None], hits, misses)
    merged = misses.expand(len(one.observations.merged), -1, -1).clone()
    if at:
        merged[at - 1] = wanted
    plain = misses if at else wanted
    one.record.results["validation"] = {"n_views": at} if at else None
    return replace(one, observations=replace(one.observations, plain=plain, merged=merged))


def test_runs_are_tested_against_the_best_baseline_with_the_views_of_their_result(
    tmp_path: Path,
) -> None:
    n = 16
    learned = always(column(trained(tmp_path / "a")), [i < 12 for i in range(n)], at=3)
    random = always(
        column(trained(tmp_path / "b", method="random")), [i >= 8 for i in range(n)], at=3
    )
    none = always(column(trained(tmp_path / "c", method="none")), [i < 2 for i in range(n)], at=0)
    runs = page_content([learned, random, none], n_test=n)["runs"]
    notes = [[row["note"] for row in run["results"] if row["is_main"]] for run in runs]
    p = mcnemar_p_value(8, 4)
    assert notes[0] == [
        f"of the 16 inputs here, 8 are right only with this run, 4 only with b; p = {p:.2g}"
    ]
    assert notes[1] == [""]  # which is the best baseline
    assert "2 are right only with this run, 8 only with b" in notes[2][0]


def test_the_page_is_not_larger_than_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = column(trained(tmp_path / "a"))
    most = 250_000
    monkeypatch.setattr("instaaug.runs.reporting.MOST_BYTES", float(most))
    monkeypatch.setattr("instaaug.runs.reporting.LEAST_FOR_PICTURES", 0.0)
    noise = torch.randint(0, 256, (16, 160, 160, 3), dtype=torch.uint8)
    heavy = replace(one, observations=replace(one.observations, pictures=noise))
    assert len(page_html(page_content([heavy], n_test=16))) <= 1.05 * most
    assert MOST_BYTES < 15e6


def test_a_fixed_weight_knows_no_band(tmp_path: Path) -> None:
    one = column(trained(tmp_path / "a", **{"entropy.rule": "fixed"}))
    (run,) = page_content([one], n_test=16)["runs"]
    assert run["factors"][0]["band"] is None
    assert not any("band" in found["title"] for found in run["warnings"])


def test_what_is_learned_per_class_is_shown_for_the_class(tmp_path: Path) -> None:
    run = trained(tmp_path / "a", **{"phi.conditioning": "class", "trainer.max_epochs": 2})
    one = column(run)
    (factor,) = one.observations.factors
    x = run.prepare(one.images.__getitems__(range(16))[0])
    with torch.no_grad():
        joint = run.augmenter.distribution(x, one.images.targets)  # type: ignore[operator]
    assert factor.entropy is not None
    assert torch.allclose(factor.entropy, joint.entropies()[:, 0])


def test_a_broken_model_is_told(tmp_path: Path) -> None:
    run = trained(tmp_path / "a")
    with torch.no_grad():
        next(run.model.parameters()).fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="`outputs` must be finite"):
        observe_run(run, run.load_test_images(None), n_views=1, n_shown=1)


def test_images_that_have_changed_sides_are_noticed(tmp_path: Path) -> None:
    run = trained(tmp_path / "a")
    facts = tmp_path / "a" / "data.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "split_hash": "0"}))
    with pytest.raises(ArgumentError, match="`data` must be the same as when the run began"):
        run.load_test_images(None)


def test_copies_of_training_images_are_not_shown(tmp_path: Path) -> None:
    folder = plain_folder(tmp_path / "pets", 8)
    run = trained(tmp_path / "a", data=str(folder))
    before = len(run.load_test_images(None))
    for name in ("cat", "dog"):  # one picture of each class, over and over
        files = sorted((folder / name).iterdir())
        for file in files[1:]:
            file.write_bytes(files[0].read_bytes())
    again = trained(tmp_path / "b", data=str(folder))
    kept = again.load_test_images(None)
    assert 0 < len(kept) < before
    assert {kept.classes[int(t)] for t in kept.targets} == {"ibis"}
