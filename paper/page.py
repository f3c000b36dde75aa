"""docs/paper.md: every published exhibit, the paper's numbers beside ours, and what they say."""

from pathlib import Path

from instaaug.files import write_text
from paper.catalog import list_exhibits
from paper.exhibits import Exhibit
from paper.layout import describe_runs, from_json, to_markdown

__all__ = ["PAGE", "RESULTS", "render_page", "write_page"]

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "paper.md"
INTRODUCTION = """# The paper, table by table

Every table and figure of Miao et al. (ICML 2023) is one command, at two scales.
`python -m paper list` says what each needs; `python -m paper table1` measures one at a scale that
two cores can afford; `--scale paper` is [the paper's own setting](paper_setting.md), for those
with accelerators. What is finished is not run again. This page is written by `python -m paper
page` from `paper/results`.

"Paper" is what the paper reports at its scale, "ours" what we measured at the laptop's. The
numbers do not repeat one another: their order is what can be compared. ± is one standard error
over seeds.
"""


def write_page() -> Path:
    """Write the page anew."""
    write_text(PAGE, render_page())
    return PAGE


def render_page() -> str:
    """The page, as the published results have it."""
    return "\n".join([INTRODUCTION, *(_section(exhibit) for exhibit in list_exhibits())])


def _section(exhibit: Exhibit) -> str:
    file = RESULTS / f"{exhibit.name}.json"
    lines = [f"## {exhibit.title}", ""]
    if not file.is_file():
        return "\n".join([*lines, f"`python -m paper {exhibit.name}`: not measured yet.", ""])
    found, about = from_json(file.read_text(encoding="utf-8"), RESULTS)
    if found.rows:
        lines += [to_markdown(found)]
    lines += [f"![{exhibit.title}](../paper/results/{p.name})\n" for p in found.pictures]
    differs = " ".join(
        (f"Ours: {found.setting}", *exhibit.differs, *found.notes, *describe_runs(found))
    )
    if exhibit.verdict:
        lines += [f"**{exhibit.verdict}**", ""]
    lines += [differs, "", f"`{about['command']}`, {found.seconds / 60:.0f} minutes."]
    return "\n".join([*lines, ""])
