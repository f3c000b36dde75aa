"""Imports point one way, files stay small, and every module says what it is.

The order is that of STYLE.md with one change: `objectives` stands below `augmentation`, because
`InstaAug.objective` needs the estimators and the entropy band; both work on plain tensors and know
nothing of augmenters. `spaces` joins the first row: transforms name their spaces, and
parameterizations read them, so that neither needs the other.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "instaaug"
ROWS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    (
        *("shapes", "registry", "signatures", "spaces", "files", "yaml_files", "scores", "stats"),
        "durations",
    ),
    ("safe_files", "settings"),
    ("functional",),
    ("transforms", "distributions", "networks", "data"),
    ("parameterizations", "objectives"),
    ("augmentation",),
    ("methods",),
    ("frozen",),
    ("transfer",),
    ("tasks", "report", "speed", "adapters"),
    ("runs",),
    ("compare",),
    ("cli",),
    ("__main__",),
)
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "misc", "common"}
MOST_LINES = 1000


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


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


def test_every_package_has_a_place() -> None:
    assert {package_of(path) for path in MODULES} - {"__init__"} <= ROW_OF.keys()


def test_imports_point_one_way() -> None:
    """But for the public names, which come from everywhere, when they are first used."""
    found = {
        str(path.relative_to(SOURCE)): misplaced(
            package_of(path), imported_packages(tree_of(path))
        )
        for path in MODULES
        if path != SOURCE / "__init__.py"
    }
    assert {path: imports for path, imports in found.items() if imports} == {}


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


def imports_from(path: Path) -> list[ast.ImportFrom]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom)]


def test_no_import_is_relative() -> None:
    assert not [path for path in MODULES if any(n.level for n in imports_from(path))]


def test_every_module_says_what_it_is() -> None:
    assert not [path for path in MODULES if not ast.get_docstring(tree_of(path))]


def public_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            assert isinstance(node, ast.Assign)
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def is_empty(path: Path) -> bool:
    return path.name in ("__init__.py", "__main__.py") and len(tree_of(path).body) <= 1


def test_every_module_names_what_is_public() -> None:
    public = {path: public_names(tree_of(path)) for path in MODULES if not is_empty(path)}
    assert not [path for path, names in public.items() if names is None], "add __all__"
    assert not [path for path, names in public.items() if len(names or ()) > len({*(names or ())})]


def test_every_file_is_about_one_thing() -> None:
    n_lines = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert {path: n for path, n in n_lines.items() if n > MOST_LINES} == {}


def test_every_file_has_a_telling_name() -> None:
    places = [path.relative_to(SOURCE).parts for path in MODULES]
    names = {part.removesuffix(".py") for parts in places for part in parts}
    assert not names & VAGUE
    assert not [name for name in names if name.startswith("test_")], "pytest would collect it"
    assert not {parts[0].removesuffix(".py") for parts in places} & sys.stdlib_module_names


def prints(path: Path) -> bool:
    nodes = ast.walk(tree_of(path))
    return any(isinstance(node, ast.Name) and node.id == "print" for node in nodes)


def test_only_the_command_line_prints() -> None:
    assert {package_of(path) for path in MODULES if prints(path)} <= {"cli"}


def test_no_module_postpones_annotations() -> None:
    """The shape checker needs real ones."""
    assert not [p for p in MODULES if any(n.module == "__future__" for n in imports_from(p))]


def test_the_package_needs_neither_studies_nor_benchmarks() -> None:
    outside = {"paper", "benchmarks", "tests"}
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & outside, path
