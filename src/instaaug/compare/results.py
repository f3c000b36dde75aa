"""Results of a comparison: tables in several formats, and the HTML page."""

import re
from dataclasses import replace
from pathlib import Path

from instaaug.compare.state import (
    ComparisonState,
    RunProgress,
    find_split_mismatches,
    read_state,
)
from instaaug.errors import ArgumentError, DataError
from instaaug.files import write_text
from instaaug.report.comparison import MethodComparison, MethodScores, compare_scores
from instaaug.report.records import accuracy_of, describe_learned, read_record
from instaaug.report.tables import runs_to_csv, to_csv, to_latex, to_markdown
from instaaug.runs.reporting import Report, write_report
from instaaug.safe_files import read_json

__all__ = ["environment_note", "read_comparison", "write_page", "write_tables"]

MAX_ON_PAGE = 8
SOFTWARE = ("instaaug", "commit", "torch")
VERSION = re.compile(r"[0-9A-Za-z.+]{1,40}")


def read_comparison(out: Path, *, reference: str | None = None) -> MethodComparison:
    """Every contender of a comparison with the scores of its runs so far, sorted and tested.

    Arguments:
        out: The folder of the comparison.
        reference: Label of the contender that others are compared with; if None, the one that
            the comparison was called with, or else the best baseline.

    Raises:
        ArgumentError: If runs were scored by different measures.
        FileNotFoundError: If the folder holds no comparison.
    """
    state = _require_state(out)
    runs = _read_runs(out, state)
    measures = {s.score.measure for s in runs if s.score is not None}
    if len(measures) > 1:
        raise ArgumentError(
            "`loss.regression` must be the same for all methods: their scores are "
            f"{sorted(measures)}, which do not compare."
        )
    named_after = state.reference_named_after
    if reference not in (None, state.reference):
        named_after = sum(s.status == "done" for s in runs) or None
    measure = next(iter(measures), "top1")
    is_share = measure == "top1"
    return compare_scores(
        [_method_scores(label, runs, state) for label in state.contenders],
        reference=reference or state.reference,
        named_after=named_after,
        higher_is_better=is_share,
        measure="accuracy" if is_share else measure,
        is_share=is_share,
    )


def write_tables(out: Path, comparison: MethodComparison) -> None:
    """Write ``leaderboard`` as Markdown, CSV and LaTeX, and the single runs as ``runs.csv``."""
    note = environment_note(out)
    tables = {
        "leaderboard.md": to_markdown(comparison) + (f"\n{note}\n" if note else ""),
        "leaderboard.csv": to_csv(comparison),
        "leaderboard.tex": to_latex(comparison),
        "runs.csv": runs_to_csv(comparison),
    }
    for name, text in tables.items():
        write_text(out / name, text)


def environment_note(out: Path) -> str:
    """A sentence on the software versions of runs with a result, if they differ."""
    state = _require_state(out)
    files = [s.folder / "environment.json" for s in _read_runs(out, state) if s.score]
    found = [_read_versions(file) for file in files]
    versions = {name: sorted({run[name] for run in found}) for name in SOFTWARE}
    mixed = [f"{name} {' and '.join(all_)}" for name, all_ in versions.items() if len(all_) > 1]
    return f"Not all runs were made by the same software: {'; '.join(mixed)}." if mixed else ""


def write_page(out: Path, comparison: MethodComparison) -> Report | None:
    """Write the HTML page on the best contenders with one seed; None if no run has finished."""
    state = _require_state(out)
    done = [s for s in _read_runs(out, state) if s.status == "done"]
    if not done:
        return None
    seeds = [s.seed for s in done]
    seed = max(
        state.all_seeds, key=lambda seed: (seeds.count(seed), -seed)
    )  # the one that most have
    folders = {s.label: s.folder for s in done if s.seed == seed}
    names = [method.runs.name for method in comparison.methods]
    best = [folders[name] for name in names if name in folders][:MAX_ON_PAGE]
    return write_report(best, out / "report")


def _method_scores(label: str, runs: list[RunProgress], state: ComparisonState) -> MethodScores:
    own = [s for s in runs if s.label == label]
    cost = state.costs.get(label)
    scores = {s.seed: s.score for s in own if s.score is not None}
    plain = {s.seed: _plain_score(s.folder) for s in own if s.score is not None}
    return MethodScores(
        label,
        {seed: score.value for seed, score in scores.items()},
        n_expected=len(state.seeds[label]),
        is_ours=state.given_settings(label).method.name == "instaaug",
        choice=state.chosen[label].sentence if label in state.chosen else "",
        step_cost=cost[0] if cost else None,
        failures={s.seed: s.sentence for s in own if s.status == "failed"},
        n_views=max((score.n_samples or 1 for score in scores.values()), default=None),
        plain={seed: score for seed, score in plain.items() if score is not None},
        learned=_learned([s.folder for s in own if s.score is not None]),
    )


def _learned(folders: list[Path]) -> str:
    """What runs have learned of single images, if that can be read."""
    try:
        return describe_learned([read_record(folder) for folder in folders])
    except DataError:
        return ""


def _plain_score(folder: Path) -> float | None:
    """The score of a run on unaugmented test images, if it can be read."""
    try:
        score = accuracy_of(read_record(folder), "plain")
    except DataError:
        return None
    return None if score is None else score.value


def _read_versions(file: Path) -> dict[str, str]:
    """The software versions of a run, "unknown" where they cannot be read."""
    try:
        content = read_json(file)
    except (DataError, OSError):
        content = {}
    known = {name: str(content.get(name)) for name in SOFTWARE if content.get(name)}
    return {
        name: known[name] if VERSION.fullmatch(known.get(name, "")) else "unknown"
        for name in SOFTWARE
    }


def _read_runs(out: Path, state: ComparisonState) -> list[RunProgress]:
    """Every run; one that saw other images than the others with its seed counts as failed."""
    runs = {(run.label, run.seed): run for run in state.read_progress(out)}
    for other, usual in find_split_mismatches(runs.values()):
        sentence = f"It saw other images than {usual.label} with this seed: {other.images}."
        runs[other.label, other.seed] = replace(
            other, status="failed", score=None, sentence=sentence
        )
    return list(runs.values())


def _require_state(out: Path) -> ComparisonState:
    state = read_state(out)
    if state is None:
        raise FileNotFoundError(
            f"There is no comparison in {str(out)!r}: it has no comparison.json. `instaaug "
            "compare` makes one."
        )
    return state
