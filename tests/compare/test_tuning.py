"""The search for the band and φ's learning rate, on trials that are computed, not trained."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from instaaug.augmentation import InstaAug
from instaaug.compare.search_space import SearchSpace, describe_choice
from instaaug.compare.tuning import TuningResult, judge, tune
from instaaug.compare.tuning_trials import ReportScore, TrialRecord, TuningFolder, rung_epochs
from instaaug.errors import (
    ArgumentError,
    DataError,
    DiskError,
    InstaAugError,
    NonFiniteError,
    WeightsFileError,
)
from instaaug.files import lock_folder
from instaaug.methods.fast_auto_augment import MissingOptunaError
from instaaug.runs.build import build_task
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings
from instaaug.yaml_files import read_yaml
from tests.runs.conftest import few_sprites

PAPER = {  # its grid, and what φ looks for there
    "crop": {"grid": [[0.375, 16], [0.75, 8], [1.0, 1]], "max_outside": 1.0},
    "phi": {"goal": "loss", "learning_rate": 1e-3},
}
CONFIG = TrainSettings.from_mapping(
    PAPER,
    {
        "trainer.max_epochs": 16,
        "data.image_size": 16,
        "transforms": "crop",
        "phi.width": 0.25,
        "model.width": 0.25,
        "trainer.accelerator": "cpu",
    },
)
N_IMAGES = 400
CENTER, RATE = 0.13, 1e-4  # the planted optimum; the default is 0.077 and 1e-3


def quality(config: TrainSettings) -> float:
    """Highest, 0.9, at the planted optimum; less if transforms do not depend on the input."""
    if config.method.name == "random":
        return 0.2
    band = config.entropy.diversity
    low, high = band if isinstance(band, tuple) else (0.06, 0.10)
    off_center = log(low * high) / 2 - log(CENTER)
    off_rate = log((config.phi.learning_rate or 1e-3) / RATE) / 4
    highest = 0.9 if config.phi.conditioning == "input" else 0.6
    return highest * exp(-(off_center**2) - off_rate**2)


class Fake:
    """Trials whose scores follow from their settings; they rise with the epochs."""

    def __init__(self) -> None:
        self.configs: list[TrainSettings] = []
        self.folders: list[str] = []
        self.epochs = 0

    def __call__(
        self, config: TrainSettings, folder: Path, report: ReportScore
    ) -> Sequence[float] | None:
        self.folders.append(folder.name)
        self.configs.append(config)
        done = 0
        for epoch in rung_epochs(config):
            self.epochs, done = self.epochs + epoch - done, epoch
            if report(epoch, quality(config) * epoch / config.trainer.max_epochs):
                return None
        self.epochs += config.trainer.max_epochs - done
        n_right = round(N_IMAGES * quality(config))
        return [1.0] * n_right + [0.0] * (N_IMAGES - n_right)


class Interrupting(Fake):
    """Is interrupted in one of its trials, after the first comparison."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def __call__(
        self, config: TrainSettings, folder: Path, report: ReportScore
    ) -> Sequence[float] | None:
        if len(self.configs) == self.at:
            report(rung_epochs(config)[0], 0.99)
            raise KeyboardInterrupt
        return super().__call__(config, folder, report)


def without_time(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    return [{**asdict(record), "seconds": 0.0} for record in records]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fake, TuningResult]:
    """A search of many trials."""
    fake, folder = Fake(), tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSTAAUG_CACHE", str(folder / "cache"))
        few_sprites(patch)
        tuned = tune(CONFIG, folder / "search", n_trials=32, run=fake)
    return fake, tuned


def test_the_first_trial_has_the_unchanged_settings(tmp_path: Path) -> None:
    config = CONFIG.override(
        {"entropy.band": (3.0, 3.5), "phi.learning_rate": 0.5}
    )  # outside of the usual
    fake = Fake()
    tuned = tune(config, tmp_path / "search", n_trials=3, run=fake)
    assert fake.configs[0] == config
    assert fake.folders == ["000", "001", "002"]
    first = tuned.records[0]
    largest = log(321)
    assert first.ranges["crop"] == pytest.approx((exp(3.0 - largest), exp(3.5 - largest)))
    assert first.changes == {}
    shared, plain = fake.configs[1:]
    assert shared.phi.conditioning == "none"
    assert shared.override({"phi.conditioning": "input"}) == config  # and nothing else
    assert plain == config.override({"method": {"name": "random", "sizes": [0.375, 1.0]}})


def test_a_planted_optimum_is_found(searched: tuple[Fake, TuningResult]) -> None:
    """Random settings have a mean quality of 0.26; that of 15 exceeds 0.44 once in a thousand."""
    fake, tuned = searched
    assert quality(CONFIG) < 0.5
    assert quality(tuned.config) > 0.85
    assert tuned.verdict.best == max(tuned.records, key=lambda record: record.score or 0)
    assert tuned.verdict.is_beyond_noise
    assert sum(quality(config) for config in fake.configs[17:]) / 15 > 0.6


def test_trials_are_cut_short_as_successive_halving_says(
    searched: tuple[Fake, TuningResult],
) -> None:
    """Told anew from the scores: to go on is for the best half of all that came so far."""
    fake, records = searched[0], searched[1].records
    seen: dict[int, list[float]] = {epoch: [] for epoch in (2, 4, 8)}
    for record in records:
        expected = []
        score = quality(CONFIG if not record.number else fake.configs[record.number])
        for epoch, others in seen.items():
            others.append(score * epoch / 16)
            expected.append(epoch)
            if sum(other > others[-1] for other in others) >= max(1, len(others) // 2):
                break
        else:
            assert record.state == "complete"
            assert [epoch for epoch, _ in record.rungs] == expected
            continue
        assert record.state == "pruned"
        assert [epoch for epoch, _ in record.rungs] == expected
        assert not record.scores
    states = [record.state for record in records]
    assert states[0] == "complete"
    assert states.count("pruned") >= 8
    assert fake.epochs < 0.7 * 30 * 16


@pytest.mark.parametrize("at", [0, 1, 7])
def test_an_interrupted_search_goes_on_as_if_nothing_had_happened(
    at: int, tmp_path: Path, searched: tuple[Fake, TuningResult]
) -> None:
    whole = searched[1].records[:9]
    with pytest.raises(KeyboardInterrupt):
        tune(CONFIG, tmp_path / "parts", n_trials=9, run=Interrupting(at))
    assert (tmp_path / "parts" / "tuned.yaml").exists() == (at > 0)
    fake = Fake()
    parts = tune(CONFIG, tmp_path / "parts", n_trials=9, run=fake)
    assert len(fake.configs) == 9 - at
    assert without_time(parts.records) == without_time(whole)
    best = max((r for r in whole if r.state == "complete"), key=lambda r: r.score or 0)
    assert parts.verdict.best.number == best.number
    assert TrainSettings.from_mapping(read_yaml(tmp_path / "parts" / "tuned.yaml")) == parts.config


def test_a_finished_search_does_nothing_and_more_trials_go_on(tmp_path: Path) -> None:
    first = tune(CONFIG, tmp_path / "search", n_trials=4, run=Fake())
    idle, more = Fake(), Fake()
    again = tune(CONFIG, tmp_path / "search", n_trials=4, run=idle)
    assert not idle.configs
    assert again == first
    assert len(tune(CONFIG, tmp_path / "search", n_trials=6, run=more).records) == 6
    assert len(more.configs) == 2


def test_a_search_from_before_there_was_light_is_gone_on_with_as_it_was(tmp_path: Path) -> None:
    first = tune(CONFIG, tmp_path / "search", n_trials=3, run=Fake())
    file = tmp_path / "search" / "trials.json"
    rows = json.loads(file.read_text())
    for row in rows:
        assert row["point"].pop("lit") == 0
    rows[1]["changes"] = {"entropy.diversity": [0.1, 0.2], "phi.conditioning": "none"}
    rows[1]["scores"] = [1.0] * len(rows[1]["scores"] or rows[0]["scores"])
    rows[1]["state"] = "complete"
    file.write_text(json.dumps(rows))
    again = tune(CONFIG, tmp_path / "search", n_trials=3, run=Fake())
    assert [record.point for record in again.records] == [r.point for r in first.records]
    assert again.config.entropy.diversity == (0.1, 0.2)  # as it was run
    assert again.config.phi.conditioning == "none"


def test_another_seed_tries_other_settings(tmp_path: Path) -> None:
    zero, one = (
        tune(CONFIG.override({"seed": seed}), tmp_path / str(seed), n_trials=7, run=Fake()).records
        for seed in (0, 1)
    )
    assert [r.point for r in zero[:5]] == [r.point for r in one[:5]]  # each learner, and light
    assert zero[5].point != one[5].point
    assert zero[5].point != zero[6].point


def test_a_tie_is_won_by_the_unchanged_settings(tmp_path: Path) -> None:
    tuned = tune(CONFIG, tmp_path / "search", n_trials=5, run=lambda *_: [1.0, 0.0])
    assert {record.state for record in tuned.records} == {"complete"}
    assert tuned.config == CONFIG.with_full_paths()
    assert tuned.verdict.is_default


def test_a_trial_with_nan_has_failed_and_the_search_goes_on(tmp_path: Path) -> None:
    fake = Fake()

    def some_fail(
        config: TrainSettings, folder: Path, report: ReportScore
    ) -> Sequence[float] | None:
        if folder.name in ("000", "002"):
            fake.configs.append(config)
            report(2, 0.9)
            raise NonFiniteError("The loss became NaN.")
        return fake(config, folder, report)

    tuned = tune(CONFIG, tmp_path / "search", n_trials=5, run=some_fail)
    states = [record.state for record in tuned.records]
    assert [i for i, state in enumerate(states) if state == "failed"] == [0, 2]
    assert tuned.records[2].reason == "The loss became NaN."
    assert tuned.verdict.default is None
    assert tuned.verdict.best.number in (1, 3, 4)


def test_no_trial_begins_when_the_budget_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 10))  # each trial asks twice: ten seconds
    monkeypatch.setattr("instaaug.compare.tuning.time.monotonic", lambda: float(next(clock)))
    spent = tune(CONFIG, tmp_path / "search", n_trials=20, budget=25.0, run=Fake())
    assert [record.seconds for record in spent.records] == [10.0] * 3
    again = tune(CONFIG, tmp_path / "search", n_trials=20, budget=25.0, run=Fake())
    assert len(again.records) == 3  # what was spent before counts
    assert len(tune(CONFIG, tmp_path / "other", budget=0.1, run=Fake()).records) == 1


def test_the_file_is_for_training_and_says_where_it_comes_from(tmp_path: Path) -> None:
    config = CONFIG.override({"data.validation_fraction": 0.0})
    fake = Fake()
    tuned = tune(config, tmp_path / "search", n_trials=20, command="instaaug tune x", run=fake)
    assert all(c.data.validation_fraction == 0.1 for c in fake.configs)
    file = tmp_path / "search" / "tuned.yaml"
    assert TrainSettings.from_mapping(read_yaml(file)) == tuned.config
    assert tuned.config.data.validation_fraction == 0.0
    assert tuned.config.entropy == fake.configs[tuned.verdict.best.number].entropy
    comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
    (line,) = comments
    assert line.startswith("# instaaug tune x: best of 20 trials; validation accuracy ")
    default = round(N_IMAGES * quality(config)) / N_IMAGES
    assert f"against {100 * default:.1f} %" in line


def test_changes_are_told_as_they_come(tmp_path: Path) -> None:
    told: list[tuple[int, str, int]] = []

    def on_change(records: Sequence[TrialRecord]) -> None:
        told.append((records[-1].number, records[-1].state, len(records[-1].rungs)))

    tune(CONFIG, tmp_path / "search", n_trials=1, run=Fake(), on_change=on_change)
    assert told == [(0, "running", n) for n in range(4)] + [(0, "complete", 3)]


def test_another_search_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    tune(CONFIG, tmp_path / "search", n_trials=1, run=Fake())
    with pytest.raises(ArgumentError, match=r"epochs` must be 16 as in the search in .* got 8"):
        tune(
            CONFIG.override({"trainer.max_epochs": 8}), tmp_path / "search", n_trials=1, run=Fake()
        )
    settings = tmp_path / "search" / "tuning.yaml"
    settings.write_text(settings.read_text().replace("split_hash: ", "split_hash: x"))
    with pytest.raises(ArgumentError, match="`data` must be the same images as in the search"):
        tune(CONFIG, tmp_path / "search", n_trials=1, run=Fake())


def test_settings_without_an_effect_on_results_may_change(tmp_path: Path) -> None:
    first = tune(CONFIG, tmp_path / "search", n_trials=1, run=Fake())
    changed = CONFIG.override(
        {
            "trainer.threads": 3,
            "trainer.log_every_n_steps": 7,
            "trainer.checkpoint_minutes": 9.0,
            "data.cache_dir": str(tmp_path / "cache"),
        }
    )
    assert TuningFolder(tmp_path / "search").has_settings(changed)
    other = changed.override({"trainer.max_epochs": 8})
    assert not TuningFolder(tmp_path / "search").has_settings(other)
    assert tune(changed, tmp_path / "search", n_trials=1, run=Fake()).records == first.records


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "mixup"}, "`method` must be instaaug, random or .*: got 'mixup'"),
        ({"method": "random", "transforms": "flip"}, "`transforms` must have crops, or ranges"),
        ({"entropy.rule": "fixed"}, "rule` must hold the entropy in its band .* got 'fixed'"),
        ({"trainer.devices": 2}, "must be 1 in tuning: got 2 and 1"),
        ({"pretrain_epochs": 16}, "max_epochs` must be more than the 16 in which φ"),
    ],
)
def test_settings_that_cannot_be_tuned_are_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=words):
        tune(CONFIG.override({**changes}), tmp_path / "search", run=Fake())
    assert not (tmp_path / "search").exists()


def test_without_optuna_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingOptunaError, match=r"pip install 'instaaug\[tune\]'"):
        tune(CONFIG, tmp_path / "search", run=Fake())


def test_two_searches_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path / "search"),
        pytest.raises(ArgumentError, match="`out` must not be in use by another search"),
    ):
        tune(CONFIG, tmp_path / "search", n_trials=1, run=Fake())
    tune(CONFIG, tmp_path / "search", n_trials=1, run=Fake())


# Failures


FEW_EPOCHS = CONFIG.override({"trainer.max_epochs": 4})


def half_right(*_: object) -> list[float]:
    """The scores of a trial that is not trained."""
    return [1.0, 0.0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "Out of memory."),
        (RuntimeError("the \n kernel failed"), "RuntimeError: the kernel failed"),
        (ArgumentError("`diversity` must be less."), "`diversity` must be less."),
        (ArgumentError(""), "ArgumentError"),
    ],
)
def test_a_trial_that_fails_for_another_reason_is_noted_with_it(
    error: Exception, words: str, tmp_path: Path
) -> None:
    def second_fails(config: TrainSettings, folder: Path, report: ReportScore) -> list[float]:
        if folder.name == "001":
            raise error
        return [1.0, 0.0]

    records = tune(FEW_EPOCHS, tmp_path / "search", n_trials=3, run=second_fails).records
    assert [record.state for record in records] == ["complete", "failed", "complete"]
    assert records[1].reason == words
    again = tune(FEW_EPOCHS, tmp_path / "search", n_trials=3, run=half_right)
    assert again.records == records


@pytest.mark.parametrize(
    "error",
    [DataError("Damaged."), WeightsFileError("Cut."), DiskError("Full."), OSError("Gone.")],
)
def test_files_at_fault_end_the_search_and_no_trial_has_failed(
    error: Exception, tmp_path: Path
) -> None:
    def second_fails(config: TrainSettings, folder: Path, report: ReportScore) -> list[float]:
        if folder.name == "001":
            raise error
        return [1.0, 0.0]

    with pytest.raises(type(error), match=str(error)):
        tune(FEW_EPOCHS, tmp_path / "search", n_trials=3, run=second_fails)
    again = tune(FEW_EPOCHS, tmp_path / "search", n_trials=3, run=half_right)
    assert [record.state for record in again.records] == ["complete"] * 3


def test_a_search_in_which_all_fail_says_so(tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise NonFiniteError("The loss became NaN.")

    words = "All 2 trials failed, the last one with: The loss became NaN. If numbers"
    with pytest.raises(InstaAugError, match=words):
        tune(FEW_EPOCHS, tmp_path / "search", n_trials=2, run=fails)
    assert not (tmp_path / "search" / "tuned.yaml").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scores": [1.0, 0.0]}, "its trials have scores of .* images, not of the same"),
        ({"point": {"crop/center": 0.1}}, "the `point` of trial 1 is not in the space"),
        ({"number": 7}, "the `number` of trial 1 is 7"),
    ],
)
def test_a_spoiled_file_of_trials_is_named(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    tune(FEW_EPOCHS, tmp_path / "search", n_trials=2, run=lambda *_: [1.0, 0.0, 1.0])
    file = tmp_path / "search" / "trials.json"
    rows = json.loads(file.read_text())
    rows[1].update(changes)
    file.write_text(json.dumps(rows))
    with pytest.raises(DataError, match=f"must be as the search wrote it: {words}.* Restore it"):
        tune(FEW_EPOCHS, tmp_path / "search", n_trials=2, run=half_right)


def test_a_search_that_was_killed_before_it_wrote_its_result_writes_it(tmp_path: Path) -> None:
    tune(FEW_EPOCHS, tmp_path / "search", n_trials=2, run=half_right)
    file = tmp_path / "search" / "tuned.yaml"
    whole = file.read_text()
    file.write_text("what the first trial found")
    tune(FEW_EPOCHS, tmp_path / "search", n_trials=2, run=half_right)
    assert file.read_text() == whole


def test_trials_of_other_images_are_named(tmp_path: Path) -> None:
    tune(FEW_EPOCHS, tmp_path / "search", n_trials=1, run=half_right)
    with pytest.raises(DataError, match="scores of 2 validation images, and there are 3"):
        tune(FEW_EPOCHS, tmp_path / "search", n_trials=2, run=lambda *_: [1.0, 0.0, 1.0])


def test_wrong_settings_that_the_first_trial_finds_leave_no_folder(tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise ArgumentError("`accelerator` must suit this machine.")

    with pytest.raises(ArgumentError, match="`accelerator`"):
        tune(FEW_EPOCHS, tmp_path / "search", run=refuse)
    assert not (tmp_path / "search").exists()
    with pytest.raises(ArgumentError, match="`trials` must be at least 1: got 0"):
        tune(FEW_EPOCHS, tmp_path / "search", n_trials=0, run=half_right)


# The space


FACTS = DataFacts(16, 3, ("a", "b"), 2, (0.5,) * 3, (0.2,) * 3, "")


def space_of(config: TrainSettings) -> SearchSpace:
    return SearchSpace.from_augmenter(config, build_task(config, FACTS).augmenter)


def limits_at(config: TrainSettings, space: SearchSpace, point: dict[str, float]) -> Any:
    """The bands in nats of an augmenter built from the settings at a point."""
    augmenter = build_task(space.settings_at(config, point), FACTS).augmenter
    assert isinstance(augmenter, InstaAug)
    return augmenter.limits


@pytest.mark.parametrize("grid", [((0.375, 16), (0.75, 8), (1.0, 1)), ((0.5, 12), (1.0, 1))])
def test_crops_are_searched_from_the_papers_advice_up_on_any_grid(
    grid: tuple[tuple[float, int], ...],
) -> None:
    """2 to 4 of log 321 nats are shares of 0.023 to 0.17."""
    space = space_of(TrainSettings.from_mapping(PAPER, {"transforms": "crop", "crop.grid": grid}))
    assert space.bounds["crop/center"] == pytest.approx((exp(2) / 321, 0.8))
    assert space.bounds["crop/width"] == pytest.approx((0.1, log(0.8) + log(321) - 2))
    assert space.bounds["phi.learning_rate"] == (1e-5, 1e-2)


def test_the_whole_of_the_advice_can_be_reached_in_nats() -> None:
    config = TrainSettings.from_mapping(PAPER, {"transforms": "crop"})
    space = space_of(config)
    point = {**space.start, "crop/center": exp(3) / 321, "crop/width": 2.0}
    assert limits_at(config, space, point)["crop"] == pytest.approx((2.0, 4.0), abs=1e-3)
    narrow = {**point, "crop/width": 0.5}
    assert limits_at(config, space, narrow)["crop"] == pytest.approx((2.75, 3.25), abs=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"transforms": "crop"},
        {"transforms": "crop", "entropy.band": (0.5, 5.5)},
        {"transforms": "crop", "entropy.diversity": (0.9, 1.0)},
        {"transforms": "crop", "entropy.diversity": (0.05, 0.05)},
        {"transforms": "crop", "crop.grid": [[0.5, 2], [1.0, 1]]},
        {"transforms": "rotation"},
        {"transforms": ["crop", "hsv_jitter"], "phi.learning_rate": 0.3},
        {"transforms": ["flip", "rotation"], "phi.learning_rate": 1e-7},
        {"transforms": "crop", "phi.estimator": "closed_form"},
        {"transforms": "crop", "phi.goal": "usefulness", "phi.learning_rate": None},
        {"transforms": "crop", "phi.estimator": "closed_form", "phi.sizes": "uniform"},
        {"transforms": "crop", "phi.network": "model", "phi.signal": "rotating"},
        {"transforms": "crop", "crop.grid": "receptive", "phi.step": "separate"},
    ],
)
def test_the_space_contains_its_start_and_every_corner_can_be_built(
    changes: dict[str, Any],
) -> None:
    config = TrainSettings.from_mapping(PAPER, changes)
    space = space_of(config)
    lit = [] if "hsv_jitter" in changes["transforms"] else ["lit"]
    assert space.start.keys() == {*space.bounds, "learner", *lit}
    mirrored = ["mirrored"] if not {"flip", "rotation"} & {*config.transforms} else []
    learners = [n for n in space.learners if n != "undone"]
    assert learners == ["input", "none", "random", *mirrored]
    for name, (low, high) in space.bounds.items():
        assert 0 < low < high
        assert low <= space.start[name] <= high
    for corner in (0, 1):
        for other in (0, 1):
            point = {
                name: bounds[corner if name.endswith("center") else other]
                for name, bounds in space.bounds.items()
            }
            for learner in range(1, len(space.learners)):
                build_task(space.settings_at(config, {**point, "learner": learner}), FACTS)
            point["learner"] = 0
            for name, (low, high) in space.ranges(point).items():
                lowest, highest = space.bounds[f"{name}/center"]
                assert 0.999 * lowest <= low <= high <= min(1.0, 1.001 * highest)
            limits_at(config, space, point)


@pytest.mark.parametrize("transforms", ["rotation", "hsv_jitter"])
def test_ranges_are_searched_on_both_sides_of_the_default(transforms: str) -> None:
    space = space_of(TrainSettings.from_mapping(PAPER, {"transforms": transforms}))
    ((name, (low, high)),) = space.own_ranges.items()
    lowest, highest = space.bounds[f"{name}/center"]
    assert lowest < 0.6 * low
    assert high < highest < 1


def test_a_band_alone_is_a_pair_and_several_have_names() -> None:
    for transforms, kind in (["crop"], tuple), (["crop", "rotation"], dict):
        config = TrainSettings.from_mapping(
            PAPER, {"transforms": transforms, "entropy.band": {"crop": (3.0, 3.5)}}
        )
        space = space_of(config)
        assert space.settings_at(config, space.start) == config
        found = space.settings_at(config, {**space.start, "phi.learning_rate": 1e-4})
        assert isinstance(found.entropy.diversity, kind)
        assert found.entropy.band is None
        undo = {"entropy.band": config.entropy.band, "phi.learning_rate": 1e-3}
        assert found.override(undo) == config
    assert isinstance(found.entropy.diversity, dict)
    assert found.entropy.diversity["crop"] == pytest.approx(
        (exp(3.0 - log(321)), exp(3.5 - log(321))), rel=1e-3
    )


def test_a_single_choice_has_no_band() -> None:
    config = TrainSettings.from_mapping(PAPER, {"transforms": "crop", "crop.grid": [[1.0, 1]]})
    space = space_of(config)
    assert list(space.bounds) == ["phi.learning_rate"]
    found = space.settings_at(config, {"phi.learning_rate": 0.00012345, "learner": 0})
    assert found == config.override({"phi.learning_rate": 0.0001234})


def test_crops_below_the_smallest_side_are_left_out_and_the_band_is_possible() -> None:
    config = TrainSettings.from_mapping(PAPER, {"transforms": "crop"})
    space = space_of(config)
    found = space.settings_at(config, {**space.start, "smallest": 0.5})
    assert found.crop.grid == ((0.75, 8), (1.0, 1))
    few = space.settings_at(config, {**space.start, "smallest": 0.9, "crop/center": 0.023})
    assert few.crop.grid == ((0.75, 8), (1.0, 1))  # something is left to choose
    build_task(few, FACTS)


@pytest.mark.parametrize(
    ("given", "bounds", "changes"),
    [
        (
            {"method": "random", "transforms": "crop"},
            {"smallest": (0.25, 0.9)},
            {"sizes": [0.9, 1.0]},
        ),
        (
            {"method": {"name": "random", "sizes": [0.1, 1.0]}, "transforms": "crop"},
            {"smallest": (0.1, 0.9)},
            {"sizes": [0.9, 1.0]},
        ),
        (
            {"method": "random", "transforms": "hsv_jitter"},
            {"strength": (0.1, 1.0)},
            {},
        ),
        (
            {"method": "random", "transforms": ["crop", "rotation"]},
            {"smallest": (0.25, 0.9), "strength": (0.1, 1.0)},
            {"sizes": [0.9, 1.0], "strength": 1.0},
        ),
        ({"method": "random_resized_crop"}, {"area": (0.08, 0.9)}, {"smallest": 0.9}),
    ],
)
def test_random_ranges_are_searched_like_learned_ones(
    given: dict[str, Any], bounds: dict[str, Any], changes: dict[str, Any]
) -> None:
    config = TrainSettings.from_mapping(PAPER, given)
    space = space_of(config)
    assert (space.bounds, space.learners) == (bounds, ())
    assert ("lit" in space.start) == (given.get("transforms") != "hsv_jitter")
    highest = {name: high for name, (_, high) in bounds.items()}
    found = space.settings_at(config, highest)
    assert found.method.options == {**config.method.options, **changes}
    assert replace(found, method=config.method) == config
    build_task(found, FACTS)


def test_a_search_falls_back_to_random_and_says_so(tmp_path: Path) -> None:
    def random_is_best(config: TrainSettings, *_: object) -> list[float]:
        return [1.0] * 9 + [float(config.method.name == "random")]

    tuned = tune(CONFIG, tmp_path / "search", n_trials=4, run=random_is_best)
    assert tuned.config.method.name == "random"
    words = describe_choice(CONFIG.with_full_paths(), tuned.config)
    assert "Chosen: method random, method.sizes [0.375, 1]. Random transforms did best" in words
    assert tuned.records[tuned.verdict.best.number].ranges == {}


def test_for_colors_a_phi_that_undoes_its_inputs_is_a_candidate() -> None:
    config = TrainSettings.from_mapping(PAPER, {"transforms": "hsv_jitter"})
    space = space_of(config)
    assert space.learners == ("input", "none", "undone", "random", "mirrored")
    undone = space.settings_at(config, {**space.start, "learner": 2.0})
    assert (undone.phi.undo, undone.phi.conditioning) == (0.5, "input")
    assert space.settings_at(config, space.start).phi.undo == 0
    assert space_of(undone).learners == ("input", "none", "random", "mirrored")


@pytest.mark.parametrize(
    "method",
    [
        "instaaug",
        {"name": "random", "sizes": [0.3, 0.7]},
        {"name": "random_resized_crop", "smallest": 0.12345},
    ],
)
def test_another_light_is_a_candidate_for_every_method(method: object) -> None:
    config = TrainSettings.from_mapping(PAPER, {"transforms": "crop", "method": method})
    space = space_of(config)
    point = {**space.start, "lit": 1.0}
    assert point in space.points
    lit = space.settings_at(config, point)
    own = {"brightness": 0.4, "contrast": 0.4, "white_balance": 0.2}
    assert lit == config.override({"data.vary": own})
    assert build_task(lit, FACTS).vary is not None
    gray = replace(space, n_channels=1).settings_at(config, point)
    assert gray.data.vary == {"brightness": 0.4, "contrast": 0.4}
    assert not space.settings_at(config, space.start).data.vary


@pytest.mark.parametrize(
    "changes",
    [
        {"data.vary": {"contrast": 0.2}},
        {"transforms": ["crop", "brightness"]},
        {"transforms": ["local_color", "crop"]},
        {"task": "regression", "phi.goal": "loss"},
    ],
)
def test_light_that_is_settled_already_is_not_searched(changes: dict[str, Any]) -> None:
    config = TrainSettings.from_mapping(PAPER, {"transforms": "crop", **changes})
    facts = replace(FACTS, classes=()) if config.task == "regression" else FACTS
    space = SearchSpace.from_augmenter(config, build_task(config, facts).augmenter)
    assert all("lit" not in point for point in space.points)
    assert space.settings_at(config, space.start).data.vary == config.data.vary


def test_random_crops_are_tried_with_mirror_images_and_whole_images_too() -> None:
    """For a φ tries both by itself, and the budgets are to be alike."""
    learned = TrainSettings.from_mapping(PAPER, {"transforms": "crop"})
    space = space_of(learned)
    point = {**space.start, "learner": float(space.learners.index("mirrored"))}
    assert space.points[-1] == point  # searches from before there was one go on as they were
    found = space.settings_at(learned, point)
    assert (found.method.name, found.data.flip, space.ranges(point)) == ("random", True, {})
    plain = TrainSettings.from_mapping(PAPER, {"transforms": "crop", "method": "random"})
    space = space_of(plain)
    assert {**space.start, "mirrored": 1.0} in space.points
    assert space.settings_at(plain, {**space.start, "mirrored": 1.0}).data.flip
    assert space.points[-1] == {**space.start, "whole": 1.0}
    ended = plain.override({"finetune_epochs": 6, "trainer.max_epochs": 20})
    twenty = plain.override({"trainer.max_epochs": 20})
    assert space.settings_at(twenty, space.points[-1]) == ended
    assert "whole" not in space_of(ended).start
    assert space.settings_at(plain, space.start) == plain


@pytest.mark.parametrize(
    "changes", [{"data.flip": True}, {"transforms": "rotation"}, {"task": "regression"}]
)
def test_mirror_images_that_are_settled_already_are_not_searched(changes: dict[str, Any]) -> None:
    given = {"transforms": "crop", "method": "random", **changes}
    config = TrainSettings.from_mapping(PAPER, given)
    facts = replace(FACTS, classes=()) if config.task == "regression" else FACTS
    space = SearchSpace.from_augmenter(config, build_task(config, facts).augmenter)
    assert all("mirrored" not in point for point in space.points)


def test_an_ablation_is_compared_with_random_and_stays_one() -> None:
    config = TrainSettings.from_mapping(PAPER, {"transforms": "crop", "phi.conditioning": "none"})
    assert space_of(config).learners == ("none", "random", "mirrored")


# The verdict


def trial(number: int, *scores: float, state: str = "complete") -> TrialRecord:
    return TrialRecord(number, state, {}, {}, {}, scores=scores)  # type: ignore[arg-type]


def test_the_error_of_an_accuracy_is_binomial_and_never_zero() -> None:
    assert trial(0, *[1.0] * 80, *[0.0] * 20).error == pytest.approx((0.8 * 0.2 / 100) ** 0.5)
    assert 0.003 < trial(0, *[1.0] * 100).error < 0.007  # half of 1 / (100 + 1)
    assert trial(0, *[0.0] * 100).error == pytest.approx(trial(0, *[1.0] * 100).error)
    assert trial(0, 0.5, 0.7).error == pytest.approx(0.1 / 2**0.5)


def test_images_are_compared_one_by_one_and_trials_counted() -> None:
    """Ten images are better and none worse: 2 / 2¹⁰, times the three trials."""
    before, after = [1.0] * 50 + [0.0] * 50, [1.0] * 60 + [0.0] * 40
    records = [trial(0, *before), trial(1, *after), trial(2, state="pruned"), trial(3, *before)]
    verdict = judge([*records, trial(4, state="failed")])
    assert verdict is not None
    assert verdict.best.number == 1
    assert verdict.difference == pytest.approx(0.1)
    assert verdict.n_tried == 3
    assert verdict.p_value == pytest.approx(3 * 2 / 2**10)
    assert verdict.is_beyond_noise
    assert "60.0 % (s.e. 4.9), against 50.0 % (s.e. 5.0)" in verdict.describe("classification")
    assert verdict.describe("classification").endswith(
        ": more than chance explains for this seed, on these validation images "
        "(p = 0.0059, corrected for 3 trials); other seeds were not tried."
    )


def test_a_few_images_may_be_luck() -> None:
    verdict = judge([trial(0, 1.0, 0.0, 0.0), trial(1, 1.0, 1.0, 0.0)])
    assert verdict is not None
    assert verdict.p_value == 1.0
    assert not verdict.is_beyond_noise
    assert "which may be chance" in verdict.describe("classification")


def test_errors_of_a_regression_are_compared_by_their_mean() -> None:
    """Differences 0.1 ± 0.1 of 100 images are ten standard errors; of 1 ± 10, a tenth of one."""
    before = [0.5] * 100
    clear = judge([trial(0, *before), trial(1, *[0.7, 0.5] * 50)])
    noisy = judge([trial(0, *before), trial(1, *[0.51 + 1, 0.51 - 1] * 50)])
    assert clear is not None
    assert noisy is not None
    assert clear.is_beyond_noise
    assert "p < 0.001" in clear.describe("regression")
    assert noisy.p_value == pytest.approx(0.92, abs=0.01)  # 2 Φ(−0.1)


def test_the_default_wins_ties_and_needs_no_comparison() -> None:
    verdict = judge([trial(0, 1.0, 0.0), trial(1, 0.0, 1.0)])
    assert verdict is not None
    assert verdict.is_default
    assert verdict.p_value is None
    assert "no trial beat them" in verdict.describe("classification")


def test_a_default_that_failed_is_not_compared() -> None:
    verdict = judge([trial(0, state="failed"), trial(1, 0.0, 1.0)])
    assert verdict is not None
    assert verdict.difference is None
    assert not verdict.is_beyond_noise
    assert "the unchanged settings failed" in verdict.describe("classification")
    assert judge([trial(0, state="failed")]) is None
