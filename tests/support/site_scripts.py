"""The scripts behind the site, which belong to no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["load_site_script"]

FOLDER = Path(__file__).parents[2] / "docs/.site"


def load_site_script(name: str) -> ModuleType:
    """The script of that name in ``docs/.site`` as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
