"""The search itself, on trials that are computed instead of trained."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from instaaug.errors import ArgumentError, NonFiniteError
from instaaug.methods.fast_auto_augment import MissingOptunaError
from instaaug.runs.settings import TrainSettings
from instaaug.tune.folder import TuningFolder
from instaaug.tune.search import Tuned, tune
from instaaug.tune.trial import Report, rungs_of
from instaaug.tune.trial_record import TrialRecord
from instaaug.yaml_files import read_yaml
from tests.runs.conftest import few_sprites

CONFIG = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 16,
        "data.image_size": 16,
        "transforms": "crop",
        "phi.width": 0.25,
        "model.width": 0.25,
        "trainer.accelerator": "cpu",
    }
)
N_IMAGES = 400
CENTER, RATE = 0.13, 1e-4  # the planted optimum; the default is 0.077 and 1e-3


def quality(config: TrainSettings) -> float:
    """Highest, 0.9, at the planted optimum."""
    low, high = config.diversity if isinstance(config.diversity, tuple) else (0.06, 0.10)
    off_center = log(low * high) / 2 - log(CENTER)
    off_rate = log(config.phi_learning_rate / RATE) / 4
    return 0.9 * exp(-(off_center**2) - off_rate**2)


class Fake:
    """Trials whose scores follow from their settings; they rise with the epochs."""

    def __init__(self) -> None:
        self.configs: list[TrainSettings] = []
        self.folders: list[str] = []
        self.epochs = 0

    def __call__(
        self, config: TrainSettings, folder: Path, report: Report
    ) -> Sequence[float] | None:
        self.folders.append(folder.name)
        self.configs.append(config)
        done = 0
        for epoch in rungs_of(config):
            self.epochs, done = self.epochs + epoch - done, epoch
            if report(epoch, quality(config) * epoch / config.epochs):
                return None
        self.epochs += config.epochs - done
        n_right = round(N_IMAGES * quality(config))
        return [1.0] * n_right + [0.0] * (N_IMAGES - n_right)


class Interrupting(Fake):
    """Is interrupted in one of its trials, after the first comparison."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def __call__(
        self, config: TrainSettings, folder: Path, report: Report
    ) -> Sequence[float] | None:
        if len(self.configs) == self.at:
            report(rungs_of(config)[0], 0.99)
            raise KeyboardInterrupt
        return super().__call__(config, folder, report)


def without_time(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    return [{**asdict(record), "seconds": 0.0} for record in records]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fake, Tuned]:
    """A search of many trials."""
    fake, folder = Fake(), tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSTAAUG_CACHE", str(folder / "cache"))
        few_sprites(patch)
        tuned = tune(CONFIG, folder / "search", n_trials=30, run=fake)
    return fake, tuned


def test_the_first_trial_are_the_settings_as_they_are(tmp_path: Path) -> None:
    config = CONFIG.override(
        {"entropy.band": (3.0, 3.5), "phi.learning_rate": 0.5}
    )  # outside of the usual
    fake = Fake()
    tuned = tune(config, tmp_path / "search", n_trials=3, run=fake)
    assert fake.configs[0] == config
    assert fake.folders == ["000", "001", "002"]
    first = tuned.records[0]
    largest = log(321)
    assert first.bands["crop"] == pytest.approx((exp(3.0 - largest), exp(3.5 - largest)))
    assert first.phi_learning_rate == 0.5
    assert all(c.entropy is None and c.diversity for c in fake.configs[1:])
    rest = [replace(c, diversity=None, phi_learning_rate=0.5) for c in fake.configs[1:]]
    assert rest == [config.override({"entropy.band": None})] * 2  # nothing else is changed


def test_a_planted_optimum_is_found(searched: tuple[Fake, Tuned]) -> None:
    """Random settings have a mean quality of 0.40; that of 15 exceeds 0.6 once in a thousand."""
    fake, tuned = searched
    assert quality(CONFIG) < 0.5
    assert quality(tuned.config) > 0.88
    assert tuned.verdict.best == max(tuned.records, key=lambda record: record.score or 0)
    assert tuned.verdict.is_beyond_noise
    assert sum(quality(config) for config in fake.configs[15:]) / 15 > 0.6


def test_trials_are_cut_short_as_successive_halving_says(
    searched: tuple[Fake, Tuned],
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
    at: int, tmp_path: Path, searched: tuple[Fake, Tuned]
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


def test_another_seed_tries_other_settings(tmp_path: Path) -> None:
    zero, one = (
        tune(CONFIG.override({"seed": seed}), tmp_path / str(seed), n_trials=3, run=Fake()).records
        for seed in (0, 1)
    )
    assert zero[0].point == one[0].point
    assert zero[1].point != one[1].point
    assert zero[1].point != zero[2].point


def test_a_tie_is_won_by_the_settings_as_they_were(tmp_path: Path) -> None:
    tuned = tune(CONFIG, tmp_path / "search", n_trials=5, run=lambda *_: [1.0, 0.0])
    assert {record.state for record in tuned.records} == {"complete"}
    assert tuned.config == CONFIG.located()
    assert tuned.verdict.is_default


def test_a_trial_with_nan_has_failed_and_the_search_goes_on(tmp_path: Path) -> None:
    fake = Fake()

    def some_fail(config: TrainSettings, folder: Path, report: Report) -> Sequence[float] | None:
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
    monkeypatch.setattr("instaaug.tune.search.time.monotonic", lambda: float(next(clock)))
    spent = tune(CONFIG, tmp_path / "search", n_trials=20, budget=25.0, run=Fake())
    assert [record.seconds for record in spent.records] == [10.0] * 3
    again = tune(CONFIG, tmp_path / "search", n_trials=20, budget=25.0, run=Fake())
    assert len(again.records) == 3  # what was spent before counts
    assert len(tune(CONFIG, tmp_path / "other", budget=0.1, run=Fake()).records) == 1


def test_the_file_is_for_training_and_says_where_it_comes_from(tmp_path: Path) -> None:
    config = CONFIG.override({"data.validation_fraction": 0.0})
    fake = Fake()
    tuned = tune(config, tmp_path / "search", n_trials=12, command="instaaug tune x", run=fake)
    assert all(c.validation_fraction == 0.1 for c in fake.configs)
    file = tmp_path / "search" / "tuned.yaml"
    assert TrainSettings.from_mapping(read_yaml(file)) == tuned.config
    assert tuned.config.validation_fraction == 0.0
    assert tuned.config.diversity == fake.configs[tuned.verdict.best.number].diversity
    comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
    (line,) = comments
    assert line.startswith("# instaaug tune x: best of 12 trials; validation accuracy ")
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
    with pytest.raises(ArgumentError, match=r"`epochs` must be 16 as in the search in .* got 8"):
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
    assert TuningFolder(tmp_path / "search").began_with(changed)
    assert not TuningFolder(tmp_path / "search").began_with(replace(changed, epochs=8))
    assert tune(changed, tmp_path / "search", n_trials=1, run=Fake()).records == first.records


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "random"}, "`method` must be \"instaaug\", .*: got 'random'"),
        ({"rule": "fixed"}, '`rule` must hold the entropy in its band .* got "fixed"'),
        ({"devices": 2}, "`devices` and `nodes` must be 1 in tuning: got 2 and 1"),
        ({"pretrain_epochs": 16}, "`epochs` must be more than the 16 in which φ"),
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
