"""``instaaug list`` and ``instaaug show``."""

from pathlib import Path

import pytest

from instaaug.compare.contenders import VARIANTS
from instaaug.data import DATASETS
from instaaug.methods import METHODS
from instaaug.networks import MODELS
from instaaug.runs.settings import TrainSettings
from instaaug.settings import setting_infos
from instaaug.transforms import TRANSFORMS
from tests.support.command_line import CommandLine

KINDS = {
    "transforms": (*TRANSFORMS,),
    "models": (*MODELS, "timm:NAME", "module:function"),
    "data": (*DATASETS, "FOLDER", "FILE.csv", "FILE.npz"),
    "methods": (*METHODS, *VARIANTS),
}


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith(" ")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_has_every_name_and_a_sentence_on_it(instaaug: CommandLine, kind: str) -> None:
    done = instaaug("list", kind)
    assert done.code == 0
    assert done.out.splitlines()[0].strip() == kind
    assert sorted(names(done.out)) == sorted(KINDS[kind])
    assert all(len(line.split()) > 2 for line in done.out.splitlines()[1:])


def test_a_list_of_everything_has_every_kind(instaaug: CommandLine) -> None:
    done = instaaug("list")
    assert sorted(names(done.out)) == sorted(name for kind in KINDS.values() for name in kind)


def test_an_unknown_kind_is_explained(instaaug: CommandLine) -> None:
    done = instaaug("list", "colors")
    assert done.code == 2
    assert "'colors' is not one of 'transforms', 'models', 'data', 'methods'" in done.err


def test_a_file_of_settings_is_shown_with_all_the_others(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "my.yaml").write_text("trainer: {max_epochs: 77}\nentropy: [3.0, 3.5]\n")
    done = instaaug("show", "my.yaml")
    assert done.code == 0, done.err
    infos = setting_infos(TrainSettings)
    assert names(done.out) == [info.path for info in infos]
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.startswith(" ")}
    assert lines["trainer.max_epochs"].split()[1:3] == ["77", "*"]
    assert "[3.0, 3.5] *" in lines["entropy.band"]
    assert all(info.help in lines[info.path] for info in infos)
    assert all(f"\n{info.section}" in f"\n{done.out}" for info in infos)


def test_the_options_of_a_method_are_shown(instaaug: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("method: {name: mixup, alpha: 0.25}")
    lines = instaaug("show", "my.yaml").out.splitlines()
    assert any(line.split()[:2] == ["method.alpha", "0.25"] for line in lines)


def test_a_run_is_shown(instaaug: CommandLine, shop: Path) -> None:
    done = instaaug("show", shop / "run")
    assert done.code == 0, done.err
    assert str(shop / "pets") in done.out


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("no.yaml", "There is no file 'no.yaml'."),
        ("my.yaml", "There is no setting in my.yaml called 'sed'. Did you mean 'seed'?"),
        (".", "There is no run in '.': it has no config.yaml."),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    instaaug: CommandLine, tmp_path: Path, config: str, words: str
) -> None:
    (tmp_path / "my.yaml").write_text("sed: 3")
    assert instaaug.error("show", config).startswith(words)


def test_the_cache_is_said_and_cleared_and_nothing_else_is_touched(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path))
    own = [tmp_path / f"{'a' * 32}.npy", tmp_path / f"{'a' * 32}.json", tmp_path / ".x.npy.part"]
    for file in own:
        file.write_bytes(b"0" * 500_000)
    (tmp_path / "thesis.txt").write_text("mine")
    assert "1 set of decoded images, 1.5 MB" in instaaug("cache").out
    assert all(file.is_file() for file in own)
    assert "Removed" in instaaug("cache", "--clear").out
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    assert "0 sets" in instaaug("cache").out
