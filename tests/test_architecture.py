"""Imports point one way, files stay small, and every module says what it is.

The order is that of STYLE.md with one change: `objectives` stands below `augmentation`, because
`InstaAug.objective` needs the estimators and the entropy band; both work on plain tensors and know
nothing of augmenters. `spaces` joins the first row: transforms name their spaces, and
parameterizations read them, so that neither needs the other.
"""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "instaaug"
ROWS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("shapes", "registry", "spaces", "files", "scores"),
    ("functional",),
    ("transforms", "distributions", "networks", "data"),
    ("parameterizations", "objectives"),
    ("augmentation",),
    ("methods",),
    ("frozen",),
    ("tasks", "report"),
    ("experiments",),
    ("cli",),
)
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))
EVERY_MODULE = pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(SOURCE))
)
UPWARDS = {"augmentation/augmenter.py": {"report"}}  # `aug.plot(x)`, when it is called
VAGUE = {"utils", "util", "helpers", "helper", "misc", "common"}
MOST_LINES = 350


def package_of(path: Path) -> str:
    """The line of the diagram that a file belongs to: `transforms`, or `errors` for errors.py."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_packages(tree: ast.Module) -> set[str]:
    """Packages of this library that a module imports anywhere, also within functions."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "instaaug":
            names += [f"instaaug.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    parts = [name.split(".") for name in names]
    return {p[1] for p in parts if p[0] == "instaaug" and len(p) > 1 and p[1] != "__version__"}


def misplaced(package: str, imported: set[str]) -> set[str]:
    """The imports that point upwards or sideways, or at something without a place."""
    row = ROW_OF[package]
    return {name for name in imported - {package} if ROW_OF.get(name, len(ROWS)) >= row}


# The public names come from everywhere, when they are first used.
@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path != SOURCE / "__init__.py"],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_imports_point_one_way(path: Path) -> None:
    package = package_of(path)
    assert package in ROW_OF, f"give {package!r} a place in ROWS"
    found = misplaced(package, imported_packages(ast.parse(path.read_text())))
    assert found == UPWARDS.get(str(path.relative_to(SOURCE)), set())


@pytest.mark.parametrize(
    ("package", "line", "bad"),
    [
        ("transforms", "from instaaug.functional.warp import warp", set()),
        ("transforms", "from instaaug.transforms.crop import Crop", set()),
        ("transforms", "from instaaug.distributions import Joint", {"distributions"}),
        ("transforms", "def f():\n    import instaaug.cli", {"cli"}),
        ("objectives", "from instaaug import augmentation, __version__", {"augmentation"}),
        ("cli", "from instaaug.nowhere import thing", {"nowhere"}),
        ("networks", "import torch, instaaug.data.sprites", {"data"}),
        ("networks", "from instaaug import InstaAug", {"InstaAug"}),
    ],
)
def test_a_wrong_import_would_be_seen(package: str, line: str, bad: set[str]) -> None:
    assert misplaced(package, imported_packages(ast.parse(line))) == bad


@EVERY_MODULE
def test_no_import_is_relative(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text()))
    assert not [n for n in nodes if isinstance(n, ast.ImportFrom) and n.level]


@EVERY_MODULE
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def public_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            assert isinstance(node, ast.Assign)
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


@EVERY_MODULE
def test_every_module_names_what_is_public(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = public_names(tree)
    empty = path.name in ("__init__.py", "__main__.py") and len(tree.body) <= 1
    assert names is not None or empty, "add __all__"
    assert len(names or []) == len(set(names or []))


@EVERY_MODULE
def test_every_file_is_about_one_thing(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@EVERY_MODULE
def test_every_file_has_a_telling_name(path: Path) -> None:
    names = {part.removesuffix(".py") for part in path.relative_to(SOURCE).parts}
    assert not names & VAGUE
    assert not any(name.startswith("test_") for name in names), "pytest would collect it"
    assert path.relative_to(SOURCE).parts[0].removesuffix(".py") not in sys.stdlib_module_names


@EVERY_MODULE
def test_no_module_prints_or_postpones_annotations(path: Path) -> None:
    """Only the command line prints; the shape checker needs real annotations."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    prints = [n for n in nodes if isinstance(n, ast.Name) and n.id == "print"]
    assert not prints or package_of(path) == "cli"
    assert not [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
