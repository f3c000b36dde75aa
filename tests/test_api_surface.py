"""The public names are those of a checked-in list: removing one is a deliberate act."""

import subprocess
import sys
from pathlib import Path

import pytest

import instaaug

LIST = Path(__file__).with_name("api.txt").read_text().split()
NAMES = [name for name in LIST if "." not in name]
SUBMODULES = (
    "data", "distributions", "frozen", "methods", "networks", "objectives", "parameterizations",
    "spaces", "transfer", "transforms",
)  # fmt: skip


def test_the_public_names_are_those_on_the_list() -> None:
    assert sorted(instaaug.__all__) == NAMES
    assert len(NAMES) <= 40


@pytest.mark.parametrize("module", SUBMODULES)
def test_the_names_of_a_public_module_are_those_on_the_list(module: str) -> None:
    public = getattr(instaaug, module)
    listed = [name.removeprefix(f"{module}.") for name in LIST if name.startswith(f"{module}.")]
    assert sorted(public.__all__) == listed
    assert all(hasattr(public, name) for name in listed)


def test_all_that_a_transform_of_ones_own_needs_is_in_one_place() -> None:
    from instaaug import transforms

    needed = {"TRANSFORMS", "Boxes", "Choices", "Interval", "Parameter", "Transform", "register"}
    assert needed <= {*transforms.__all__}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_imported(name: str) -> None:
    thing = getattr(instaaug, name)
    assert thing is getattr(instaaug, name)
    assert thing.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'instaaug' has no attribute 'InstaAugment'"):
        _ = instaaug.InstaAugment  # type: ignore[attr-defined,unused-ignore]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_the_library_alone_does_not_import_torch() -> None:
    result = run("import sys, instaaug; instaaug.__version__; sys.exit('torch' in sys.modules)")
    assert result.returncode == 0, result.stderr


def test_a_star_import_gives_every_name_in_a_fresh_process() -> None:
    """Neither it nor fitting views of a frozen model needs Lightning, the slowest import."""
    result = run(
        "import sys; from instaaug import *; InstaAug, transforms.Crop; print(__version__); "
        "import instaaug.runs.tta; sys.exit('lightning' in sys.modules)"
    )
    assert result.stdout.strip() == instaaug.__version__, result.stderr
    assert result.returncode == 0, "lightning was imported"
