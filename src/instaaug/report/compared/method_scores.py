"""What one method has scored: a number per seed, or the sentence that says why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean

from instaaug.errors import ArgumentError
from instaaug.report.compared.words import one_line
from instaaug.stats import mean_and_standard_error

__all__ = ["MethodScores"]

Number = float | int


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
