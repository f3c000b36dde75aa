"""What a reader must know to read the table: sentences to stand below it."""

from instaaug.report.compared.comparison import Comparison
from instaaug.report.compared.words import one_line
from instaaug.stats import CONFIDENCE

__all__ = ["notes_on"]

FEW_SEEDS = 5
ON_P = (
    "P is about other seeds on these images: first weights, order, draws, and splits where the "
    "data have no test set of their own. It says nothing about new images."
)


def notes_on(comparison: Comparison, *, with_one_view: bool = True) -> list[str]:
    """Sentences on scores, views, the test, the reference and the cost, as far as they are there.

    Arguments:
        comparison: What the table shows.
        with_one_view: Whether it has a column of the scores from the image as it is.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> notes_on(compare_scores([MethodScores("none", {0: 0.5}, n_expected=1)]))[0]
        'Accuracy is in percent, with one seed (higher is better).'
    """
    notes = [
        _on_scores(comparison),
        _on_views(comparison, with_one_view=with_one_view),
        _on_test(comparison),
        ON_P if comparison.n_tested else "",
        _on_reference(comparison),
    ]
    if any(method.runs.mean is not None and method.rank is None for method in comparison.methods):
        notes.append("Only methods that have finished all their seeds have a rank.")
    if any(method.runs.step_cost is not None for method in comparison.methods):
        notes.append("Step is the time of a training step, relative to one without augmentation.")
    return [note for note in notes if note]


def _on_scores(comparison: Comparison) -> str:
    n = max(len(method.runs.scores) for method in comparison.methods)
    name = one_line(comparison.measure)
    name = name[:1].upper() + name[1:]
    unit = " in percent," if comparison.is_share else ""
    over = f"the mean ± standard error over {_seeds(n)}" if n > 1 else "with one seed"
    better = "higher" if comparison.higher_is_better else "lower"
    return f"{name} is{unit} {over} ({better} is better)."


def _on_views(comparison: Comparison, *, with_one_view: bool) -> str:
    if not comparison.has_views:
        return ""
    words = (
        "Views is how many views of a test image, drawn by the method itself, a score averages "
        "the predictions of: 1 is the image as it is, and more take that much more computation."
    )
    if with_one_view:
        words += " One view is the mean score from the image as it is."
    return words


def _seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"


def _on_test(comparison: Comparison) -> str:
    if not comparison.n_tested:
        return ""
    n = max(m.difference.n for m in comparison.methods if m.difference is not None)
    unit = ", in percentage points" if comparison.is_share else ""
    words = (
        f"Differences are paired by seed{unit}, with Student's {CONFIDENCE:.0%} interval; p is "
        f"of the two-sided paired t-test, and Holm's p allows for {_tests(comparison)}."
    )
    if n <= FEW_SEEDS:
        words += f" With {_seeds(n)}, a large p is no evidence that two methods are alike."
    return words


def _tests(comparison: Comparison) -> str:
    return f"all {comparison.n_tested} tests" if comparison.n_tested > 1 else "the only test"


def _on_reference(comparison: Comparison) -> str:
    reference = comparison.reference_runs
    if reference is None:
        if all(method.runs.is_ours for method in comparison.methods):
            return (
                "There is no reference: all methods are variants of InstaAug; name a --reference."
            )
        return "There is no reference, as no baseline has finished all its seeds."
    if not comparison.is_selected and comparison.named_after:
        n = comparison.named_after
        return (
            f"The reference, {reference.label}, was named after {n} run{'s' * (n > 1)} had ended: "
            "if their scores had a part in it, p is not what it claims to be."
        )
    if not comparison.is_selected:
        return f"The reference, {reference.label}, was named and not chosen by its score."
    words = f"The reference, {reference.label}, has the best mean among baselines with all seeds."
    if comparison.n_tested:
        words += (
            " Chosen by these very scores, it owes its place partly to luck: p is rather too large"
            " for a method that beats it, and too small for one that loses to it. A win is one"
            " over this row, not over every baseline."
        )
    return words
