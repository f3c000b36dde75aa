"""Build the site from the repository as it lies there, so that a link works in both places.

A page's address is its path in the repository. Whatever a page links to (a picture, a table, a
configuration) comes along, a linked folder becomes a list of its files, a notebook a page with
its outputs, and every public module of ``tests/api.txt`` a page of its docstrings.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
from gallery import PAGES
from notebooks import render_markdown  # a neighbor, of no package

__all__ = ["on_config", "on_files", "on_page_markdown"]

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
MODULES = "api/"
GALLERY = "gallery.md"
NOT_MADE = "*The page itself was not made in this build; `make docs` makes it.*"
BUILT = ROOT / "build/gallery"  # by `make docs`


def on_config(config: MkDocsConfig) -> None:
    """Write out the entries of the navigation that stand for a folder."""
    config.nav = [_entry(item) for item in config.nav or []]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of ``docs`` by those of the repository that can be reached by links."""
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    for path in _reachable(_documents()):
        if path.is_dir():
            uri = _address(path) + "/index.md"
            files.append(File.generated(config, uri, content=_listing(path)))
        else:
            files.append(File(_address(path), str(ROOT), config.site_dir, False))
    for uri, content in {**_notebooks(), **_reference()}.items():
        files.append(File.generated(config, uri, content=content))
    files.append(File.generated(config, GALLERY, content=_gallery()))
    for path in [*_thumbnails(), *BUILT.glob("*.html")]:
        files.append(File.generated(config, f"gallery/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links to folders find their list, and sessions of Python look like sessions."""
    here = (ROOT / page.file.src_uri).parent

    def finish(link: re.Match[str]) -> str:
        if link[0].endswith(".ipynb") and page.file.src_uri != _notebook_page(here / link[0]):
            return link[0].removesuffix(".ipynb") + ".md"
        return link[0].rstrip("/") + "/index.md" if (here / link[0]).is_dir() else link[0]

    return LINK.sub(finish, markdown.replace("```python\n>>> ", "```pycon\n>>> "))


def _entry(item: Any) -> Any:
    """An entry of the navigation, in which ``folder/`` has become the pages of the folder."""
    if isinstance(item, list):
        return [_entry(one) for one in item]
    if isinstance(item, dict):
        return {title: _entry(one) for title, one in item.items()}
    if item == MODULES:
        return [f"{MODULES}{module}.md" for module in _public_names()]
    if item.endswith("/"):
        return [f"{item}index.md", *map(_address, sorted((ROOT / item).glob("*.md")))]
    return item


def _gallery() -> str:
    """A page of report pages; those that have not been made are described only."""
    lines = [
        "# Gallery",
        "",
        "Pages that `instaaug report` has written: [what is on them](docs/report.md). Each is one "
        "file, and works without a server. The pictures are generated, models and runs as small "
        "as can be: these are examples of pages, not of what can be gained.",
        "",
    ]
    for page in PAGES:
        made = (BUILT / f"{page.name}.html").is_file()
        image = f"![{page.title}](gallery/{page.name}.jpg)"
        lines += [f"## {page.title}", "", page.words, ""]
        lines += [f"[{image}](gallery/{page.name}.html)" if made else image, ""]
        lines += [f"[Open the page](gallery/{page.name}.html)" if made else NOT_MADE, ""]
    return "\n".join(lines)


def _thumbnails() -> list[Path]:
    return [Path(__file__).parent / "thumbnails" / f"{page.name}.jpg" for page in PAGES]


def _documents() -> list[Path]:
    """Where reading may begin."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks/README.md"]
    return [*documents, *(ROOT / "examples/notebooks").glob("*.ipynb")]


def _notebooks() -> dict[str, str | bytes]:
    """A page for every notebook, and its pictures."""
    made: dict[str, str | bytes] = {}
    for path in sorted((ROOT / "examples/notebooks").glob("*.ipynb")):
        page, pictures = render_markdown(path)
        made[_notebook_page(path)] = page
        made |= {_address(path.with_name(name)): data for name, data in pictures.items()}
    return made


def _notebook_page(path: Path) -> str:
    return _address(path.resolve().with_suffix(".md"))


def _reachable(documents: list[Path]) -> list[Path]:
    """The documents and all files and folders of the repository that they link to, each once."""
    found: dict[Path, None] = {}
    waiting = list(documents)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            waiting += _contents(path) if path.is_dir() else _links(path)
    return list(found)


def _links(path: Path) -> Iterator[Path]:
    """What a document links to within the repository; a broken link is left to MkDocs."""
    if path.suffix == ".md":
        for link in LINK.findall(path.read_text()):
            target = (path.parent / link).resolve()
            if target.exists() and target.is_relative_to(ROOT):
                yield target


def _contents(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name[0] not in "._" or path.is_file())


def _listing(folder: Path) -> str:
    """A page that lists a folder: documents by their title, other files by their name."""
    lines = [f"- [{_title(path)}]({path.name})" for path in _contents(folder)]
    title = "Design notes" if folder.name == "design" else _address(folder)
    return "\n".join([f"# {title}", "", *lines, ""])


def _title(path: Path) -> str:
    is_document = path.suffix == ".md"
    return path.read_text().partition("\n")[0].lstrip("# ") if is_document else path.name


def _address(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _public_names() -> dict[str, list[str]]:
    """The public names of every public module, as the tests keep them."""
    names: dict[str, list[str]] = {"instaaug": []}
    for line in (ROOT / "tests/api.txt").read_text().split():
        module, _, name = line.rpartition(".")
        names.setdefault(f"instaaug.{module}".rstrip("."), []).append(name)
    return names


def _reference() -> dict[str, str]:
    """A page for every public module; a name of two modules is described where it is at home."""
    package = griffe.load("instaaug", search_paths=[ROOT / "src"])
    public = _public_names()
    return {f"{MODULES}{module}.md": _module_page(package, module, public) for module in public}


def _module_page(package: Any, module: str, public: dict[str, list[str]]) -> str:
    inside = module.removeprefix("instaaug").lstrip(".")
    summary = (package[inside] if inside else package).docstring.value
    lines, elsewhere = [f"# {module}", "", summary, ""], []
    for name in public[module]:
        home = _home(package, module, name, public)
        if f"{module}.{name}" in public:
            elsewhere.append(f"- [`{name}`]({module}.{name}.md)")
        elif home != module:
            elsewhere.append(f"- [`{name}`][{home}.{name}], of `{home}`")
        elif name != "__version__":
            lines += [f"::: {module}.{name}", ""]
    return "\n".join([*lines, *(["## Described elsewhere", "", *elsewhere] if elsewhere else [])])


def _home(package: Any, module: str, name: str, public: dict[str, list[str]]) -> str:
    """The public module that a name is described in: of those that have it, the one nearest."""
    target = package[f"{module}.{name}".removeprefix("instaaug.")].canonical_path
    having = [other for other in public if name in public[other]]
    return max(having, key=lambda other: (target.startswith(f"{other}."), len(other)))
