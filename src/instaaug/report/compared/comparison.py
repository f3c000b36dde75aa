"""All methods, sorted, and each one's difference to one reference."""

from collections.abc import Sequence
from dataclasses import dataclass

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.compared.method_scores import MethodScores
from instaaug.report.compared.paired import SeedDifference, seed_difference
from instaaug.stats import holm_p_values

__all__ = ["ComparedMethod", "Comparison", "compare_scores"]


@dataclass(frozen=True)
class ComparedMethod:
    """One method among the others.

    Arguments:
        runs: What it has scored.
        rank: Its place, 1 for the best, if all its runs have a score; equals share one.
        difference: Of this method less the reference, unless it is that or there is none.
        holm: The p-value of the difference, adjusted for all that were tested.
    """

    runs: MethodScores
    rank: int | None = None
    difference: SeedDifference | None = None
    holm: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Methods compared with a reference.

    Arguments:
        methods: The best first; those without a score last.
        reference: Name of the method that the others are compared with, if there is one.
        is_selected: Whether the reference was chosen because of these scores.
        higher_is_better: Whether the score is no error.
        measure: What the score is.
        is_share: Whether it lies in [0, 1] and is written in percent.
        named_after: Runs that had ended already when the reference was named, if it was.
    """

    methods: tuple[ComparedMethod, ...]
    reference: str | None
    is_selected: bool
    higher_is_better: bool
    measure: str
    is_share: bool
    named_after: int | None = None

    @property
    def reference_runs(self) -> MethodScores | None:
        """The runs of the reference."""
        every = (method.runs for method in self.methods)
        return next((runs for runs in every if runs.name == self.reference), None)

    @property
    def has_views(self) -> bool:
        """Whether some score averages several views of an image."""
        return any(method.runs.scores and method.runs.has_views for method in self.methods)

    @property
    def n_tested(self) -> int:
        """How many methods have a p-value."""
        return sum(method.holm is not None for method in self.methods)


def compare_scores(
    rows: Sequence[MethodScores],
    *,
    reference: str | None = None,
    higher_is_better: bool = True,
    measure: str = "accuracy",
    is_share: bool = True,
    named_after: int | None = None,
) -> Comparison:
    """Sort methods and test each against one reference, seed by seed.

    Without a reference, the best baseline among those with all runs done is taken. Choosing it by
    the scores that are tested matters: its luck is part of why it was chosen. A win over it is
    found too rarely rather than too often, and a loss to it too often. A win is one over *that*
    row: a baseline that is better in truth may have had bad luck and not be it. Rows of baselines
    are part of Holm's adjustment, which for ours is never weaker than one over ours alone.
    Name the reference before there are scores, and all p-values are what they claim to be.

    Arguments:
        rows: The methods, in any order.
        reference: Name of the method to compare with, or None for the best baseline.
        higher_is_better: Whether the score is no error.
        measure: What the score is, in words.
        is_share: Whether it lies in [0, 1], to be written in percent.
        named_after: How many runs had ended when the reference was named; None or 0 if it was
            named before all of them.

    Raises:
        ArgumentError: If there is no method, two have one name, or a share is none.
        UnknownNameError: If no method has the name of the reference.

    Example:
        >>> found = compare_scores(
        ...     [
        ...         MethodScores("none", {0: 0.50, 1: 0.52, 2: 0.54}, n_expected=3),
        ...         MethodScores("random", {0: 0.60, 1: 0.63, 2: 0.64}, n_expected=3),
        ...         MethodScores("ours", {0: 0.65, 1: 0.67, 2: 0.69}, n_expected=3, is_ours=True),
        ...     ]
        ... )
        >>> found.reference, [method.runs.name for method in found.methods]
        ('random', ['ours', 'random', 'none'])
        >>> round(found.methods[0].difference.mean, 4)
        0.0467
    """
    _check(rows, is_share=is_share)
    if reference is not None and reference not in (names := [runs.name for runs in rows]):
        raise UnknownNameError("method", reference, names)
    sign = -1 if higher_is_better else 1
    order = sorted(rows, key=lambda x: (x.mean is None, sign * (x.mean or 0.0), x.label))
    chosen = reference or next((x.name for x in order if x.is_complete and not x.is_ours), None)
    against = next((runs for runs in rows if runs.name == chosen), None)
    differences = [
        seed_difference(runs.scores, against.scores) if against and runs is not against else None
        for runs in order
    ]
    ranked = [runs.mean for runs in order if runs.is_complete]
    methods = [
        ComparedMethod(
            runs,
            rank=1 + ranked.index(runs.mean) if runs.is_complete else None,
            difference=difference,
            holm=holm,
        )
        for runs, difference, holm in zip(order, differences, _adjusted(differences), strict=True)
    ]
    is_selected = reference is None and chosen is not None
    return Comparison(
        tuple(methods),
        chosen,
        is_selected,
        higher_is_better,
        measure,
        is_share=is_share,
        named_after=None if is_selected else named_after,
    )


def _adjusted(differences: Sequence[SeedDifference | None]) -> list[float | None]:
    """Holm's p-values where there is a p-value."""
    p_values = [None if found is None else found.p_value for found in differences]
    tested = [i for i, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    for i, p in zip(tested, holm_p_values([p for p in p_values if p is not None]), strict=True):
        adjusted[i] = p
    return adjusted


def _check(rows: Sequence[MethodScores], *, is_share: bool) -> None:
    if not rows:
        raise ArgumentError("`rows` must hold a method, at least: got none.")
    for what in ("name", "label"):
        known = [getattr(runs, what) for runs in rows]
        if twice := sorted({x for x in known if known.count(x) > 1}):
            raise ArgumentError(
                f"`rows` must have a {what} each: got {twice[0]!r} for two. Rename one."
            )
    for runs in rows:
        for seed, score in [*runs.scores.items(), *runs.plain.items()]:
            if is_share and not 0 <= score <= 1:
                raise ArgumentError(
                    f"`rows` must hold shares in [0, 1]: got {score} for {runs.name!r} with seed "
                    f"{seed}. Divide percentages by 100, or give is_share=False."
                )
