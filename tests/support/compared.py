"""Scores of methods as the tests of tables and charts want them."""

from collections.abc import Sequence

from instaaug.report.comparison import MethodScores

__all__ = ["HOSTILE", "ROWS", "VIEWED", "runs"]

HOSTILE = [
    "a|b",
    "a\\|b\\",
    "**bold** _it_ `code`",
    "two\nlines\r\nor\tmore",
    "<script>alert(1)</script>",
    "&amp; 100% of $x_1$ #1 ~ ^ {}",
    "[link](http://example.org)",
    "[red]markup[/red]",
    "=cmd|' /C calc'!A0",
    "\t@SUM(1)",
    "-2+3",
    "＝1+1",
    "--- ''quoted'' \"twice\" ,,",
    "\u202eturned\x1b[31m",
    "www.example.org, me@example.org",
]


def runs(
    name: str,
    *scores: float,
    n_expected: int = 3,
    is_ours: bool = False,
    cost: float | None = None,
    n_views: int | None = None,
    plain: Sequence[float] = (),
) -> MethodScores:
    """A method with scores for the seeds 0, 1, ..."""
    return MethodScores(
        name,
        dict(enumerate(scores)),
        n_expected=n_expected,
        is_ours=is_ours,
        step_cost=cost,
        n_views=n_views,
        plain=dict(enumerate(plain)),
    )


ROWS = [
    runs("none", 0.50, 0.52, 0.54, cost=1.0),
    runs("random", 0.60, 0.63, 0.64, cost=1.05),
    runs("ours", 0.65, 0.67, 0.70, is_ours=True, cost=2.0),
    runs("without input", 0.61, 0.66, 0.67, is_ours=True),
    MethodScores("mixup", {0: 0.58, 2: 0.61}, n_expected=3, failures={1: "The loss is NaN."}),
    MethodScores("broken", {}, n_expected=3, failures=dict.fromkeys(range(3), "No memory.")),
    MethodScores("later", {}, n_expected=3),
]
VIEWED = [
    runs("none", 0.50, 0.52, 0.54),
    runs("random", 0.60, 0.63, 0.64, n_views=16, plain=(0.55, 0.56, 0.57)),
    runs("ours", 0.65, 0.67, 0.70, is_ours=True, n_views=16, plain=(0.58, 0.60)),
    MethodScores("later", {}, n_expected=3),
]
