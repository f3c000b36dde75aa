"""Which trial won, and whether its network beat that of the settings as they were by chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from instaaug.runs.settings import Task
from instaaug.stats import paired_p_value
from instaaug.tune.trial_record import TrialRecord

__all__ = ["LEVEL", "Verdict", "in_words", "judge"]

LEVEL = 0.05  # of significance


@dataclass(frozen=True)
class Verdict:
    """The outcome of a search so far.

    Arguments:
        best: The complete trial with the best score; of equals the first, so that the settings
            as they were win a tie.
        default: The settings as they were; None if that trial failed.
        n_tried: Trials other than the default that were compared with it.
    """

    best: TrialRecord
    default: TrialRecord | None
    n_tried: int

    @property
    def is_default(self) -> bool:
        """Whether nothing was seen to be better."""
        return self.best.number == 0

    @property
    def difference(self) -> float | None:
        """Score of the best less that of the default."""
        if self.default is None:
            return None
        return fmean(self.best.scores) - fmean(self.default.scores)

    @property
    def p_value(self) -> float | None:
        """How often chance alone would make the best of so many networks look this much better.

        That is about two networks, trained with one seed, on these validation images: whether
        their settings differ with other seeds was not tried. Both have predicted the same images,
        which are compared one by one: by McNemar's exact test if they are right or wrong, else by
        the normal approximation. The value is multiplied with the number of trials, for the best
        of many is lucky (Bonferroni).
        """
        if self.default is None or self.is_default:
            return None
        single = paired_p_value(self.best.scores, self.default.scores)
        return min(1.0, single * max(self.n_tried, 1))

    @property
    def is_beyond_noise(self) -> bool:
        """Whether chance is an unlikely explanation for this seed, on these images."""
        p = self.p_value
        return p is not None and p < LEVEL

    def words(self, task: Task) -> str:
        """The verdict in a sentence, without more digits than the noise allows.

        Arguments:
            task: Decides what a score is.
        """
        name = "accuracy" if task == "classification" else "R²"
        score = f"validation {name} {in_words(self.best, task)}"
        if self.default is None:
            return f"{score}; the settings as they were failed."
        if self.is_default:
            return f"{score} with the settings as they were; no trial beat them."
        before = f"{in_words(self.default, task)} with the settings as they were"
        p = "p < 0.001" if (self.p_value or 0) < 0.001 else f"p = {self.p_value:.2g}"
        corrected = f"({p}, corrected for {self.n_tried} trials)"
        if not self.is_beyond_noise:
            return f"{score}, against {before}: which may be chance {corrected}."
        return (
            f"{score}, against {before}: more than chance explains for this seed, on these "
            f"validation images {corrected}; other seeds were not tried."
        )


def in_words(record: TrialRecord, task: Task) -> str:
    """The score of a complete trial with its standard error.

    Example:
        >>> record = TrialRecord(0, "complete", {}, {}, 0.001, scores=(1.0, 1.0, 1.0, 0.0))
        >>> in_words(record, "classification"), in_words(record, "regression")
        ('75.0 % (s.e. 21.7)', '0.750 (s.e. 0.217)')
    """
    mean = fmean(record.scores)
    if task == "regression":
        return f"{mean:.3f} (s.e. {record.error:.3f})"
    return f"{100 * mean:.1f} % (s.e. {100 * record.error:.1f})"


def judge(records: Sequence[TrialRecord]) -> Verdict | None:
    """The verdict on the trials so far; None if none is complete.

    Arguments:
        records: All trials, the default first.
    """
    complete = [record for record in records if record.state == "complete"]
    if not complete:
        return None
    best = max(complete, key=lambda record: (fmean(record.scores), -record.number))
    default = next((record for record in complete if record.number == 0), None)
    tried = [r for r in records if r.number > 0 and r.state in ("complete", "pruned")]
    return Verdict(best, default, len(tried))
