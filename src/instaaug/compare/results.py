"""What came out of a comparison: tables for people and programs, and the page to explore."""

import re
from dataclasses import replace
from pathlib import Path

from instaaug.compare.standings import Standing, on_other_images, standing_of
from instaaug.compare.state import ComparisonState, read_state
from instaaug.errors import ArgumentError, DataError
from instaaug.files import write_text
from instaaug.report.comparison import MethodComparison, MethodScores, compare_scores
from instaaug.report.records import accuracy_of, read_record
from instaaug.report.tables import runs_to_csv, to_csv, to_latex, to_markdown
from instaaug.runs.reporting import Report, write_report
from instaaug.safe_files import read_json

__all__ = ["environment_note", "read_comparison", "write_page", "write_tables"]

MOST_ON_PAGE = 8
SOFTWARE = ("instaaug", "commit", "torch")
VERSION = re.compile(r"[0-9A-Za-z.+]{1,40}")


def read_comparison(out: Path, *, reference: str | None = None) -> MethodComparison:
    """Every contender that was ever asked for in a folder, with what is known of its runs.

    Arguments:
        out: The folder of the comparison.
        reference: Label of the contender that others are compared with; if absent, the one that
            the comparison was called with, or else the best baseline.
    """
    state = _state(out)
    standings = _standings(out, state)
    measures = {s.score.measure for s in standings if s.score is not None}
    if len(measures) > 1:
        raise ArgumentError(
            f"`loss` must be the same for all methods: their scores are {sorted(measures)}, which "
            "do not compare."
        )
    named_after = state.reference_named_after
    if reference not in (None, state.reference):
        named_after = sum(s.status == "done" for s in standings) or None
    measure = next(iter(measures), "top1")
    is_share = measure == "top1"
    return compare_scores(
        [_method(label, standings, state) for label in state.contenders],
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
    """A sentence on the versions that runs with a result were made by, if they differ."""
    files = [s.folder / "environment.json" for s in _standings(out, _state(out)) if s.score]
    found = [_environment(file) for file in files]
    several = {name: sorted({made[name] for made in found}) for name in SOFTWARE if found}
    words = [f"{name} {' and '.join(all_)}" for name, all_ in several.items() if len(all_) > 1]
    return f"Not all runs were made by the same software: {'; '.join(words)}." if words else ""


def write_page(out: Path, comparison: MethodComparison) -> Report | None:
    """Write the page about the best contenders, with one seed; None if no run has finished."""
    state = _state(out)
    done = [s for s in _standings(out, state) if s.status == "done"]
    if not done:
        return None
    seeds = [s.seed for s in done]
    seed = max(state.every_seed, key=lambda seed: (seeds.count(seed), -seed))  # that most have run
    folders = {s.label: s.folder for s in done if s.seed == seed}
    names = [method.runs.name for method in comparison.methods]
    best = [folders[name] for name in names if name in folders][:MOST_ON_PAGE]
    return write_report(best, out / "report")


def _method(label: str, standings: list[Standing], state: ComparisonState) -> MethodScores:
    own = [s for s in standings if s.label == label]
    cost = state.costs.get(label)
    scores = {s.seed: s.score for s in own if s.score is not None}
    plain = {s.seed: _plain_score(s.folder) for s in own if s.score is not None}
    return MethodScores(
        label,
        {seed: score.value for seed, score in scores.items()},
        n_expected=len(state.seeds[label]),
        is_ours=state.contenders[label].get("method") == "instaaug",
        step_cost=cost[0] if cost else None,
        failures={s.seed: s.sentence for s in own if s.status == "failed"},
        n_views=max((score.n_samples or 1 for score in scores.values()), default=None),
        plain={seed: score for seed, score in plain.items() if score is not None},
    )


def _plain_score(folder: Path) -> float | None:
    """The score of a run from the test images as they are, where it can be read."""
    try:
        score = accuracy_of(read_record(folder), "plain")
    except DataError:
        return None
    return None if score is None else score.value


def _environment(file: Path) -> dict[str, str]:
    """What a run was made by, with "unknown" for what is no version."""
    try:
        content = read_json(file)
    except (DataError, OSError):
        content = {}
    known = {name: str(content.get(name)) for name in SOFTWARE if content.get(name)}
    return {
        name: known[name] if VERSION.fullmatch(known.get(name, "")) else "unknown"
        for name in SOFTWARE
    }


def _standings(out: Path, state: ComparisonState) -> list[Standing]:
    """Every run; one that saw other images than the others with its seed has failed."""
    found = {
        (label, seed): standing_of(out, label, seed)
        for label, seeds in state.seeds.items()
        for seed in seeds
    }
    for other, usual in on_other_images(found.values()):
        sentence = f"It saw other images than {usual.label} with this seed: {other.images}."
        found[other.label, other.seed] = replace(
            other, status="failed", score=None, sentence=sentence
        )
    return list(found.values())


def _state(out: Path) -> ComparisonState:
    state = read_state(out)
    if state is None:
        raise FileNotFoundError(
            f"There is no comparison in {str(out)!r}: it has no comparison.json. `instaaug "
            "compare` makes one."
        )
    return state
