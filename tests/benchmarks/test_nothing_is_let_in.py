"""Nothing is let in and nothing piles up: the benchmark of reliability in small."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch

from benchmarks.reliability.mutations import damage
from benchmarks.reliability.numbers import DOORS, IMAGES, LABELS, MODELS, try_door
from benchmarks.reliability.readers import READERS, Reader, fuzz
from benchmarks.reliability.soak import Held, grown, soak_loop, soak_predictor

QUICK = [name for name in READERS if not name.startswith(("runs", "records"))]
N_INPUTS = 25


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Types are checked in tests alone: files must be refused where users read them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")  # of decoders, on what is damaged
@pytest.mark.parametrize("name", QUICK)
def test_damaged_files_are_read_or_refused_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "files"
    folder.mkdir()
    READERS[name].write(folder)
    inputs = fuzz(READERS[name], N_INPUTS, 0, folder)
    assert [one.outcome.words for one in inputs if one.outcome.ending == "lost"] == []
    assert len(inputs) == N_INPUTS


def test_a_reader_that_fails_runs_code_or_takes_long_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: Path) -> None:
        (folder / "a.txt").write_text("one two three")

    def fails(path: Path) -> None:
        raise KeyError(path.name)

    def runs_code(path: Path) -> None:
        path.with_name("code_ran").touch()

    write(tmp_path)
    (failed,) = fuzz(Reader("x", write, fails, "*.txt"), 1, 0, tmp_path)
    (ran,) = fuzz(Reader("x", write, runs_code, "*.txt"), 1, 0, tmp_path)
    monkeypatch.setattr("benchmarks.reliability.readers.MOST_SECONDS", 0.0)
    (slow,) = fuzz(Reader("x", write, Path.read_bytes, "*.txt"), 1, 0, tmp_path)
    assert failed.outcome.words.startswith("KeyError in ")
    assert ran.outcome.words == "code ran"
    assert {one.outcome.ending for one in (failed, ran, slow)} == {"lost"}


@pytest.mark.parametrize(
    "ending", ["json", "yaml", "txt", "safetensors", "npy", "npz", "png", "x"]
)
def test_the_same_seed_makes_the_same_damage(ending: str) -> None:
    from random import Random

    data = b'{"a": [1, 2.5, "x"]}' * 3
    made = [
        [damage(data, ending, [data], Random(i)) for i in range(40)]  # noqa: S311  # no secret
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert len(set(made[0])) > 20


CASES = {
    "a pixel of NaN": ("a pixel of NaN", "usual", "usual"),
    "huge pixels": ("all 1e30", "usual", "usual"),
    "one image": ("one image", "one class", "usual"),
    "black images": ("black", "usual", "usual"),
    "denormal images": ("all denormal", "usual", "usual"),
    "equal logits": ("usual", "usual", "equal logits"),
    "infinite logits": ("usual", "usual", "infinite logits"),
    "NaN logits": ("usual", "usual", "NaN logits"),
    "huge logits": ("usual", "usual", "huge logits"),
}


@pytest.mark.parametrize(("image", "label", "model"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("door", ["aug(x)", "four lines", "four lines, float16, scaled", "wrap"])
def test_odd_numbers_stay_finite_or_are_refused_in_our_words(
    door: str, image: str, label: str, model: str
) -> None:
    x = IMAGES[image]()
    outcome = try_door(DOORS[door], MODELS[model](), x, LABELS[label](len(x)))
    assert outcome.ending != "lost", outcome.words


def test_a_model_that_goes_on_with_nan_is_found() -> None:
    x = IMAGES["usual"]()
    outcome = try_door(lambda *_: [torch.tensor(float("nan"))], MODELS["usual"](), x, x)
    assert outcome.ending == "lost"


def test_nothing_piles_up() -> None:
    assert not soak_loop(20).lost
    assert not soak_predictor(20).lost


@pytest.mark.parametrize("more", [{"megabytes": 99.0}, {"tensors": 40}, {"files": 8}])
def test_what_piles_up_is_found(more: dict[str, Any]) -> None:
    first = Held(megabytes=50.0, tensors=10, objects=10, files=5)
    assert grown("steps", 9, [first, first._replace(**more)]).lost
    assert not grown("steps", 9, [first, first]).lost
