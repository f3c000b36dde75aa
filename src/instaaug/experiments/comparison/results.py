"""What came out of a comparison: tables for people and programs, and the page to explore."""

from pathlib import Path

from instaaug.errors import ArgumentError
from instaaug.experiments.comparison.standings import Standing, standing_of
from instaaug.experiments.comparison.state import ComparisonState, read_state
from instaaug.experiments.reporting import Report, write_report
from instaaug.files import write_text
from instaaug.report.compared.comparison import Comparison, compare_scores
from instaaug.report.compared.csv_text import runs_to_csv, to_csv
from instaaug.report.compared.latex import to_latex
from instaaug.report.compared.markdown import to_markdown
from instaaug.report.compared.method_scores import MethodScores

__all__ = ["read_comparison", "write_page", "write_tables"]

MOST_ON_PAGE = 8


def read_comparison(out: Path, *, reference: str | None = None) -> Comparison:
    """Every contender that was ever asked for in a folder, with what is known of its runs.

    Arguments:
        out: The folder of the comparison.
        reference: Label of the contender that others are compared with; the best baseline if
            absent.
    """
    state = _state(out)
    standings = _standings(out, state)
    measures = {s.score.measure for s in standings if s.score is not None}
    if len(measures) > 1:
        raise ArgumentError(
            f"`loss` must be the same for all methods: their scores are {sorted(measures)}, which "
            "do not compare."
        )
    measure = next(iter(measures), "top1")
    is_share = measure == "top1"
    return compare_scores(
        [_method(label, standings, state) for label in state.contenders],
        reference=reference,
        higher_is_better=is_share,
        measure="accuracy" if is_share else measure,
        is_share=is_share,
    )


def write_tables(out: Path, comparison: Comparison) -> None:
    """Write ``leaderboard`` as Markdown, CSV and LaTeX, and the single runs as ``runs.csv``."""
    tables = {
        "leaderboard.md": to_markdown(comparison),
        "leaderboard.csv": to_csv(comparison),
        "leaderboard.tex": to_latex(comparison),
        "runs.csv": runs_to_csv(comparison),
    }
    for name, text in tables.items():
        write_text(out / name, text)


def write_page(out: Path, comparison: Comparison) -> Report | None:
    """Write the page about the best contenders, with one seed; None if no run has finished."""
    state = _state(out)
    done = [s for s in _standings(out, state) if s.status == "done"]
    if not done:
        return None
    seeds = [s.seed for s in done]
    seed = max(state.seeds, key=lambda seed: (seeds.count(seed), -seed))  # that most have run
    folders = {s.label: s.folder for s in done if s.seed == seed}
    names = [method.runs.name for method in comparison.methods]
    best = [folders[name] for name in names if name in folders][:MOST_ON_PAGE]
    return write_report(best, out / "report")


def _method(label: str, standings: list[Standing], state: ComparisonState) -> MethodScores:
    own = [s for s in standings if s.label == label]
    cost = state.costs.get(label)
    return MethodScores(
        label,
        {s.seed: s.score.value for s in own if s.score is not None},
        n_expected=len(state.seeds),
        is_ours=state.contenders[label].get("method") == "instaaug",
        step_cost=cost[0] if cost else None,
        failures={s.seed: s.sentence for s in own if s.status == "failed"},
    )


def _standings(out: Path, state: ComparisonState) -> list[Standing]:
    return [standing_of(out, label, seed) for label in state.contenders for seed in state.seeds]


def _state(out: Path) -> ComparisonState:
    state = read_state(out)
    if state is None:
        raise FileNotFoundError(
            f"There is no comparison in {str(out)!r}: it has no comparison.json. `instaaug "
            "compare` makes one."
        )
    return state
