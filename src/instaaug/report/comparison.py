"""Methods compared over seeds: what each has scored, and its difference to one reference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean
from unicodedata import category

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.stats import holm_p_values, mean_and_standard_error, paired_t_test

__all__ = [
    "ComparedMethod",
    "MethodComparison",
    "MethodScores",
    "SeedDifference",
    "compare_scores",
    "describe_outcome",
    "join_words",
    "one_line",
    "seed_difference",
    "shorten_words",
]

Number = float | int

LEVEL = 0.05  # of Holm's p-value, below which a difference counts


def one_line(words: str) -> str:
    r"""Words on one line, without letters that cannot be seen or that turn the line around.

    Example:
        >>> one_line("  random\n crop\x1b\u202e ")
        'random crop'
    """
    seen = "".join(" " if letter.isspace() else letter for letter in words)
    return " ".join("".join(x for x in seen if not category(x).startswith("C")).split())


def shorten_words(words: str, most: int) -> str:
    """The first words, and an ellipsis if there are more letters than wanted.

    Example:
        >>> shorten_words("the loss became NaN", 14)
        'the loss…'
    """
    if len(words) <= most:
        return words
    kept = words[: most - 1]
    return (kept.rsplit(" ", 1)[0] if " " in kept else kept).rstrip(" ,;:.") + "…"


def join_words(items: list[str]) -> str:
    """Items as a list within a sentence: a, b and c.

    Example:
        >>> join_words(["0"]), join_words(["0", "1", "4"])
        ('0', '0, 1 and 4')
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


@dataclass(frozen=True)
class SeedDifference:
    """One method less another, over the seeds that both have.

    Arguments:
        n: How many seeds these are.
        mean: Of the difference, if there is a seed.
        interval: Student's, for the difference over all seeds there could be.
        p_value: Of the paired t-test, two-sided.
        is_constant: Whether the difference is the same with every seed, but not nought.
    """

    n: int
    mean: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    is_constant: bool = False


def seed_difference(first: Mapping[int, Number], second: Mapping[int, Number]) -> SeedDifference:
    """Compare two methods by Student's paired t-test over the seeds that both have.

    A seed that makes both methods better or worse cancels out.

    One seed has neither interval nor p-value. Scores that agree for every seed have p = 1. A
    difference that is the same for every seed but not 0 has neither interval nor p-value:
    the formula would say 0, yet accuracies are counts, and three equal ones are no wonder.

    Arguments:
        first: Scores by seed.
        second: Those to compare with.

    Example:
        >>> found = seed_difference({0: 0.62, 1: 0.66, 2: 0.7}, {2: 0.67, 1: 0.64, 0: 0.61})
        >>> found.n, round(found.mean, 6), round(found.p_value, 4)  # t = 2√3 with ν = 2
        (3, 0.02, 0.0742)
    """
    seeds = sorted(set(first) & set(second))
    n = len(seeds)
    if not n:
        return SeedDifference(n)
    ours, others = ([float(scores[seed]) for seed in seeds] for scores in (first, second))
    if n == 1:
        return SeedDifference(n, ours[0] - others[0])
    test = paired_t_test(ours, others)
    if test.mean and test.interval[0] == test.interval[1]:
        return SeedDifference(n, test.mean, is_constant=True)
    return SeedDifference(n, test.mean, test.interval, test.p_value)


@dataclass(frozen=True)
class MethodScores:
    """The runs of one method, as far as they have ended.

    Arguments:
        name: What the method is called in commands.
        scores: By seed, for the runs that ended well.
        n_expected: How many runs there will be in all.
        label: What it is called in tables; its name, if nothing is given.
        is_ours: Whether it is a variant of what is to be shown; all others are baselines.
        step_cost: How many times as long a training step takes as without augmentation.
        failures: By seed, why a run failed.
        n_views: Test-time views of an image that the scores average; None or 1 for the image as
            it is.
        plain: By seed, the score from the image as it is, where it is known.
        choice: What it has chosen on validation images, in words.
        learned: What it has learned of single images, in words.

    Raises:
        ArgumentError: If a score is not finite, or the runs do not add up.

    Example:
        >>> method = MethodScores("mixup", {0: 0.61, 2: 0.63}, n_expected=3, failures={1: "NaN"})
        >>> method.label, method.is_complete, method.n_waiting
        ('mixup', False, 0)
    """

    name: str
    scores: Mapping[int, Number]
    n_expected: int
    label: str = ""
    is_ours: bool = False
    step_cost: Number | None = None
    failures: Mapping[int, str] = field(default_factory=dict)
    n_views: int | None = None
    plain: Mapping[int, Number] = field(default_factory=dict)
    choice: str = ""
    learned: str = ""

    def __post_init__(self) -> None:
        self._check_numbers()
        if both := sorted(set(self.scores) & set(self.failures)):
            raise ArgumentError(
                f"`failures` must be of seeds without a score: got seed {both[0]} in both for "
                f"{self.name!r}."
            )
        n_ended = len(self.scores) + len(self.failures)
        if self.n_expected < max(1, n_ended):
            raise ArgumentError(
                f"`n_expected` must count all runs, at least one: got {self.n_expected} for "
                f"{self.name!r}, of which {n_ended} have ended."
            )
        label = one_line(self.label) or one_line(self.name)
        if not label:
            raise ArgumentError(
                f"`name` must have letters that can be seen: got {self.name!r}. Name the method."
            )
        object.__setattr__(self, "label", label)

    def _check_numbers(self) -> None:
        for what in ("scores", "plain"):
            for seed, score in getattr(self, what).items():
                if not isfinite(score):
                    raise ArgumentError(
                        f"`{what}` must be finite: got {score} for {self.name!r} with seed {seed}."
                        " Put that run among `failures`."
                    )
        if self.n_views is not None and self.n_views < 1:
            raise ArgumentError(
                f"`n_views` must be at least 1: got {self.n_views} for {self.name!r}. Give None "
                "for the image as it is."
            )
        if self.step_cost is not None and not (isfinite(self.step_cost) and self.step_cost > 0):
            raise ArgumentError(
                f"`step_cost` must be a finite ratio above 0: got {self.step_cost} for "
                f"{self.name!r}. Give None if it was not measured."
            )

    @property
    def mean(self) -> float | None:
        """Over the seeds that have a score, if there is one."""
        return fmean(self.scores.values()) if self.scores else None

    @property
    def error(self) -> float | None:
        """The standard error of the mean, if there are two scores."""
        scores = [float(score) for score in self.scores.values()]
        return mean_and_standard_error(scores)[1] if len(scores) > 1 else None

    @property
    def one_view(self) -> Mapping[int, Number]:
        """By seed, the score from the image as it is; the score itself where it is just that."""
        return {**({} if self.has_views else self.scores), **self.plain}

    @property
    def one_view_mean(self) -> float | None:
        """Over the same seeds as the mean; None if one of them is not known."""
        scores, known = [], self.one_view
        for seed in self.scores:
            if seed not in known:
                return None
            scores.append(known[seed])
        return fmean(scores) if scores else None

    @property
    def has_views(self) -> bool:
        """Whether the scores average several views."""
        return (self.n_views or 1) > 1

    @property
    def is_complete(self) -> bool:
        """Whether every run that is expected has a score."""
        return len(self.scores) == self.n_expected

    @property
    def n_waiting(self) -> int:
        """Runs that have not ended yet."""
        return self.n_expected - len(self.scores) - len(self.failures)


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
class MethodComparison:
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
) -> MethodComparison:
    """Sort methods and test each against one reference, seed by seed.

    Without a reference, the best baseline among those with all runs done is taken. Choosing it by
    the scores that are tested matters: its luck is part of why it was chosen. A win over it is
    found too rarely rather than too often, and a loss to it too often. A win is one over *that*
    row: a baseline that is truly better may have been unlucky. Rows of baselines
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
    _check_rows(rows, is_share=is_share)
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
        for runs, difference, holm in zip(
            order, differences, _adjust_p_values(differences), strict=True
        )
    ]
    is_selected = reference is None and chosen is not None
    return MethodComparison(
        tuple(methods),
        chosen,
        is_selected,
        higher_is_better,
        measure,
        is_share=is_share,
        named_after=None if is_selected else named_after,
    )


def describe_outcome(comparison: MethodComparison) -> str:
    """A sentence or two: which methods are better than the reference, if any can be told.

    Arguments:
        comparison: Of methods.

    Example:
        >>> scores = {"random": {0: 0.60, 1: 0.63, 2: 0.64}, "ours": {0: 0.61, 1: 0.62, 2: 0.66}}
        >>> rows = [MethodScores(name, found, n_expected=3) for name, found in scores.items()]
        >>> print(describe_outcome(compare_scores(rows, reference="random")))
        No method can be told apart from random with 3 seeds; ours is +0.7 points (95 % interval
        -3.1 to +4.5). More seeds would tell more.
    """
    tested = [method for method in comparison.methods if method.holm is not None]
    if comparison.reference is None or len(comparison.methods) < 2:
        return ""
    if not tested:
        return "One seed cannot tell methods apart: give `--seeds 3` or more."
    sign = 1 if comparison.higher_is_better else -1
    better, worse = (
        [m for m in tested if (m.holm or 0.0) < LEVEL and side * sign * _mean(m) > 0]
        for side in (1, -1)
    )
    best = max(tested, key=lambda method: sign * _mean(method))
    sentences = []
    if better:
        words = join_words([_describe_difference(m, comparison) for m in better])
        sentences.append(f"Better than {comparison.reference}: {words}.")
    else:
        n = best.difference.n if best.difference else 0
        sentences.append(
            f"No method can be told apart from {comparison.reference} with {n} seeds"
            if not worse
            else f"No method is better than {comparison.reference} beyond chance with {n} seeds"
        )
        sentences[-1] += f"; {_describe_difference(best, comparison)}. More seeds would tell more."
    if worse:
        names = join_words([method.runs.name for method in worse])
        sentences.append(f"Worse than {comparison.reference}: {names}.")
    return " ".join(sentences)


def _mean(method: ComparedMethod) -> float:
    return 0.0 if method.difference is None else method.difference.mean or 0.0


def _describe_difference(method: ComparedMethod, comparison: MethodComparison) -> str:
    scale, unit = (100.0, " points") if comparison.is_share else (1.0, "")
    interval = method.difference.interval if method.difference else None
    ends = "" if interval is None else " (95 % interval {:+.1f} to {:+.1f})".format(
        *(scale * end for end in interval)
    )  # fmt: skip
    return f"{method.runs.name} is {scale * _mean(method):+.1f}{unit}{ends}"


def _adjust_p_values(differences: Sequence[SeedDifference | None]) -> list[float | None]:
    """Holm's p-values where there is a p-value."""
    p_values = [None if found is None else found.p_value for found in differences]
    tested = [i for i, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    for i, p in zip(tested, holm_p_values([p for p in p_values if p is not None]), strict=True):
        adjusted[i] = p
    return adjusted


def _check_rows(rows: Sequence[MethodScores], *, is_share: bool) -> None:
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
