"""Whether learned augmentation pays: what is compared, with whom, and what is said."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from instaaug.compare.runner import Outcome
from instaaug.compare.verdict import Verdict, find_verdict, judge, list_baselines
from instaaug.errors import ArgumentError
from instaaug.runs.build import another_light, kept_settings
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import resume, train
from tests.support.picture_folders import plain_folder

TARGETS = torch.arange(400) % 2


def outputs(wrong: range) -> Tensor:
    """Sure and right, but for some images."""
    logits = torch.nn.functional.one_hot(TARGETS, 2).float() * 4
    logits[list(wrong)] = logits[list(wrong)].flip(1)
    return logits


def sentence(**wrong: range) -> str:
    return judge({label: outputs(r) for label, r in wrong.items()}, TARGETS).sentence


def test_each_outcome_has_its_words() -> None:
    few, some, many = range(40), range(100), range(200)
    assert sentence(learned=few, none=many, random=some).startswith("It pays here. On 400")
    assert sentence(learned=some, none=many, random=few).startswith("Use `random` instead.")
    tie = sentence(learned=some, none=many, random=range(100, 200))
    assert tie.startswith("It is no better than random here")
    assert sentence(learned=some, none=few, random=many).startswith("No augmentation may do")


def test_the_numbers_are_those_of_the_images() -> None:
    verdict = judge(
        {"learned": outputs(range(40)), "none": outputs(range(200)), "a": outputs(range(120)),
         "b": outputs(range(80))},
        TARGETS,
    )  # fmt: skip
    assert (verdict.n_images, verdict.random) == (400, "b")
    assert verdict.accuracy == {"learned": 0.9, "none": 0.5, "a": 0.7, "b": 0.8}
    assert verdict.gains["none"][0] == pytest.approx(0.4)
    assert verdict.gains["b"][0] == pytest.approx(0.1)


def test_a_range_gains_nothing_from_being_chosen() -> None:
    """Each range is best on one half: whichever a half chooses fails on the other."""
    even, odd = range(0, 400, 2), range(1, 400, 2)
    logits = {"learned": outputs(range(200)), "none": outputs(range(400)), "a": outputs(even),
              "b": outputs(odd)}  # fmt: skip
    verdict = judge(logits, TARGETS)
    assert verdict.gains[verdict.random][0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"transforms": "crop"}, ["none", "random-0.35", "random-0.5", "random-0.25"]),
        ({"data.source": "sprites"}, ["none", "random"]),
        ({"transforms": "hsv_jitter"}, ["none", "random"]),
    ],
)
def test_rivals_suit_what_is_learned(settings: dict[str, str], labels: list[str]) -> None:
    config = TrainSettings.from_mapping(settings)
    rivals = list_baselines(config)
    assert [rival.label for rival in rivals] == labels
    assert all(rival.full_settings(config).seed == config.seed for rival in rivals)


def test_random_rivals_have_what_the_run_has_kept() -> None:
    config = TrainSettings.from_mapping({"transforms": "crop"})
    tried = {"mirror": {"is_kept": True}, "light": {"is_kept": True}, "whole": {"is_kept": True}}
    kept = kept_settings({**tried, "finetune_epochs": 6, "words": ""}, 3)
    none, *ranges = (rival.full_settings(config) for rival in list_baselines(config, kept))
    assert (none.data.flip, none.data.vary, none.finetune_epochs) == (False, {}, 0)
    assert all(one.data.flip and one.data.vary == another_light(3) for one in ranges)
    assert all(one.finetune_epochs == 6 for one in ranges)


@pytest.mark.parametrize(
    "tried",
    [
        *(None, [], "mirror", {"mirror": True}, {"mirror": {}}),
        *({"finetune_epochs": n} for n in ("6", True, -1, 0.5)),
    ],
)
def test_damaged_findings_have_kept_nothing(tried: object) -> None:
    assert kept_settings(tried, 3) == {}


class InThisProcess:
    """A run that is trained at once."""

    def __init__(self, folder: Path) -> None:
        resume(folder)

    def outcome(self) -> Outcome:
        return Outcome("done")

    def stop(self, *, at_once: bool = False) -> None:
        del at_once


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("verdict")
    settings = TrainSettings.from_mapping(
        {
            "data.source": str(plain_folder(home / "pets", n=60)), "data.image_size": 8,
            "data.batch_size": 32, "data.validation_fraction": 0.5, "data.test_fraction": 0.1,
            "trainer.max_epochs": 1, "views.n_views": 2, "phi.goal": "loss",
            "data.cache_dir": str(home / "cache"), "model.name": "small_cnn",
        }
    )  # fmt: skip
    train(settings, home / "run")
    return home / "run"


def test_what_is_missing_is_trained_once(run: Path) -> None:
    said: list[str] = []
    seconds = 3600.0
    Run.write_json(Run(run).timing_file, {"seconds": seconds})
    with pytest.raises(ArgumentError, match=r"`budget` must be at least 2 h.*: got 10 min"):
        find_verdict(run, budget=600.0)
    verdict = find_verdict(run, budget=2.5 * seconds, start=InThisProcess, on_message=said.append)
    assert said == ["Training none, random-0.35 for comparison: about 2 h."]
    assert {"learned", "none", "random-0.35"} == set(verdict.accuracy)
    assert verdict.n_images >= 40
    kept = (run / "verdict" / "verdict.json").read_text(encoding="utf-8")
    assert verdict.sentence in kept

    def never(folder: Path) -> InThisProcess:
        raise AssertionError(folder)

    again = find_verdict(run, budget=2.5 * seconds, start=never)
    assert again == Verdict(again.n_images, verdict.accuracy, verdict.random, verdict.gains)


def test_other_runs_are_refused(tmp_path: Path) -> None:
    for settings, words in (
        ({"method": "mixup"}, "`run` must have learned its augmentation.*mixup"),
        ({"task": "contrastive"}, "`run` must be a classification"),
    ):
        folder = tmp_path / str(len(words))
        Run(folder).start(TrainSettings.from_mapping(settings))
        with pytest.raises(ArgumentError, match=words):
            find_verdict(folder)
