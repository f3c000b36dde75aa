"""What must be said of a method besides its numbers: failures, and tests not made."""

from instaaug.report.compared.comparison import ComparedMethod, Comparison
from instaaug.report.compared.method_scores import MethodScores
from instaaug.report.compared.words import listed, one_line, shortened

__all__ = ["labeled_remarks", "remark_on"]


def remark_on(method: ComparedMethod, comparison: Comparison) -> str:
    """All that is odd with a method's row, or nothing.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> runs = MethodScores("mixup", {0: 0.5}, n_expected=3, failures={1: "The loss is NaN."})
        >>> remark_on((found := compare_scores([runs])).methods[0], found)
        'seed 1 failed: The loss is NaN'
    """
    return "; ".join([*_failures(method.runs), *_test(method, comparison)])


def labeled_remarks(
    comparison: Comparison, *, most: int, with_progress: bool = False
) -> list[str]:
    """A line for each method that there is a remark on.

    Arguments:
        comparison: All methods.
        most: Letters of a remark; of longer ones, the first words are kept.
        with_progress: Whether seeds that are missing are a remark, too.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> runs = MethodScores("mixup", {}, n_expected=1, failures={7: "The loss is NaN."})
        >>> labeled_remarks(compare_scores([runs]), most=80)
        ['mixup: seed 7 failed: The loss is NaN']
    """
    found = []
    for method in comparison.methods:
        progress = _progress(method.runs) if with_progress else ""
        parts = [part for part in (progress, remark_on(method, comparison)) if part]
        if parts:
            found.append(f"{method.runs.label}: {shortened('; '.join(parts), most)}")
    return found


def _progress(runs: MethodScores) -> str:
    if runs.is_complete or not runs.scores:
        return ""  # that there is no score at all is said in its place
    return f"{len(runs.scores)} of {runs.n_expected} seeds"


def _failures(runs: MethodScores) -> list[str]:
    """One sentence per reason, with the seeds that it holds for."""
    seeds_of: dict[str, list[str]] = {}
    for seed, sentence in sorted(runs.failures.items()):
        seeds_of.setdefault(one_line(sentence).rstrip("."), []).append(str(seed))
    found = []
    for sentence, seeds in seeds_of.items():
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {listed(seeds)}"
        which = "every seed" if 1 < len(seeds) == runs.n_expected else which
        found.append(f"{which} failed: {sentence}" if sentence else f"{which} failed")
    return found


def _test(method: ComparedMethod, comparison: Comparison) -> list[str]:
    """Of how many seeds the difference is, if one of the two has more, and why it has no p."""
    found, reference = method.difference, comparison.reference_runs
    if found is None or reference is None or not method.runs.scores or not reference.scores:
        return []
    if not found.n:
        return ["no seed in common with the reference"]
    words = []
    if found.n < max(len(method.runs.scores), len(reference.scores)):
        words.append(f"compared over {found.n} seed{'s' if found.n > 1 else ''}")
    if found.is_constant:
        words.append("the same difference with every seed, so no p-value")
    return words
