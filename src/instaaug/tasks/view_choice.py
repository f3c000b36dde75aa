"""How a trained model should use views at test time, chosen on validation images."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.at_test_time import Merging
from instaaug.augmentation.views import Merge, Select, Views
from instaaug.augmentation.worth import (
    DEPENDENCES,
    Gain,
    accuracy_gain,
    choose_by_loss,
    describe_dependence,
    describe_verdict,
    gain_to_dict,
)
from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.learning import choose_sharpness
from instaaug.frozen.table import ViewTable
from instaaug.networks.model_interface import as_input_of
from instaaug.tasks.supervised import SupervisedTask
from instaaug.tasks.view_order import ViewOrder

__all__ = ["FEWEST", "MOST_IMAGES", "ViewChoice", "choose_test_views"]

FEWEST = 40  # validation images that can tell anything
MOST_IMAGES = 1000  # that are looked at

Batches = Iterable[tuple[Tensor, Tensor]]
Logits = Float[Tensor, "images classes"]


@dataclass(frozen=True)
class ViewChoice:
    """What validation images say on views at test time.

    Arguments:
        n_images: How many images were looked at.
        merging: How outputs for views become one.
        n_views: The number of views to use; 1 for the image alone.
        gain: What these, or those that were asked for, add to the accuracy of the image alone.
        dependence: How much φ's distribution should depend on the input, from 0 to 1; None where
            no φ reads it.
        worth: By the number of views: what depending on the input adds to the accuracy. Half of
            the images choose the dependence that the other half judges.
        nats: What it adds to the mean log-likelihood, judged in the same way.
        order: One order of views for all images, if one was learned; it takes the place of drawn
            views if it is better.
    """

    n_images: int
    merging: Merging
    n_views: int
    gain: Gain
    dependence: float | None
    worth: Mapping[int, Gain]
    nats: float = 0.0
    order: ViewOrder | None = None

    def beside(self, order: ViewOrder) -> "ViewChoice":
        """The same, with an order that was learned, which is used if it is better."""
        if not order.is_better:
            return replace(self, order=order)
        return replace(self, order=order, n_views=order.n_views, gain=order.gain)

    @property
    def ordered(self) -> InstaAug | None:
        """What takes views in one order for all images, if these are used."""
        return self.order.augmenter if self.order is not None and self.order.is_better else None

    @property
    def dependence_in_words(self) -> str | None:
        """A sentence on what depending on the input was worth, if φ reads it."""
        if self.dependence is None:
            return None
        return describe_dependence(self.dependence, self.worth, self.nats)

    @property
    def verdict(self) -> str:
        """A sentence on whether to use views."""
        if self.order is None or not self.order.is_better or self.n_views == 1:
            seen_on = f"on {self.n_images:,} validation images"
            return describe_verdict(self.n_views, self.gain, seen_on=seen_on)
        use = f"{self.n_views} views in one order for all"
        seen_on = f"cross-validated on {self.order.n_images:,} validation images"
        return describe_verdict(use, self.gain, seen_on=seen_on)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "n_images": self.n_images,
            "merge": self.merging.merge,
            "sharpness": self.merging.sharpness,
            "calibration": self.merging.calibration,
            "n_views": self.n_views,
            "gain": gain_to_dict(self.gain),
            "dependence": self.dependence,
            "worth": {str(n): gain_to_dict(gain) for n, gain in self.worth.items()},
            "nats": self.nats,
            "order": None if self.order is None else self.order.to_dict(),
            "verdict": self.verdict,
            "dependence_in_words": self.dependence_in_words,
        }


@torch.no_grad()
def choose_test_views(
    task: SupervisedTask,
    batches: Batches,
    *,
    n_views: int,
    merge: Merge | None = None,
    select: Select = "sample",
    replace_drawn: bool = False,
    dependence: float | None = None,
    seed: int = 0,
) -> ViewChoice | None:
    """Choose how to merge views, how much they depend on the input, and whether to use them.

    The likelihood decides, at a temperature that suits it: of the sharpness of merging, the best;
    views at all, if they are better than the image alone, for the model has learned from such; a
    dependence above 0 only if that is better by more than a standard error. The augmenter comes
    back as it was.

    Arguments:
        task: With the trained model; all inputs share what its φ says they do.
        batches: Images, as the data set gives them, that neither the model nor φ has learned from.
        n_views: Views of each.
        merge: How they are merged; the mean or by confidence, whichever is better, if absent.
        select: How they are chosen.
        replace_drawn: Whether the same choice may be drawn twice.
        dependence: How much φ depends on the input; chosen if absent.
        seed: Decides the draws, which are as similar as can be for all dependences.

    Returns:
        What to do; None if there are too few images.
    """
    kept = list(batches)
    targets = torch.cat([labels for _, labels in kept]).cpu().long()
    if len(targets) < FEWEST:
        return None
    plain = torch.cat([_plain(task.eval(), x) for x, _ in kept])
    aug = task.augmenter
    shrinks = isinstance(aug, InstaAug) and aug.settings.conditioning == "input"
    numbers: Sequence[float] = DEPENDENCES if dependence is None else (0.0, dependence)
    rule: Merging | None = None if merge is None else Merging(merge)
    merged: dict[float, Logits] = {}
    for number in dict.fromkeys(numbers) if shrinks else (1.0,):
        with _depending(aug, number):
            outputs, weight = _outputs(
                task, kept, n_views, select=select, replace=replace_drawn, seed=seed
            )
        rule = rule or _choose_merging(plain, outputs, targets, seed)
        merged[number] = rule.merge_outputs(outputs, weight)
    assert rule is not None  # noqa: S101  # there is at least one number
    losses, right = _losses_and_right(merged, targets)
    chosen, worth, nats = 1.0, {}, 0.0
    if shrinks:
        chosen = choose_by_loss(losses) if dependence is None else dependence
        judge = _choices_of_other_halves(losses) if dependence is None else (chosen, chosen)
        worth = {n_views: accuracy_gain(_alternate(right, judge), right[0.0])}
        nats = float((losses[0.0] - _alternate(losses, judge)).mean())
    alone, alone_right = _losses_and_right({0.0: plain}, targets)
    return ViewChoice(
        n_images=len(targets),
        merging=rule,
        n_views=n_views if losses[chosen].mean() < alone[0.0].mean() else 1,
        gain=accuracy_gain(right[chosen], alone_right[0.0]),
        dependence=chosen if shrinks else None,
        worth=worth,
        nats=nats,
    )


@contextmanager
def _depending(aug: Augmenter, dependence: float) -> Iterator[None]:
    """Let φ, if there is one that reads the input, depend on it so much for a while."""
    if not isinstance(aug, InstaAug) or aug.settings.conditioning != "input":
        yield
        return
    before = float(aug.phi.dependence)
    aug.set_dependence(dependence)
    try:
        yield
    finally:
        aug.set_dependence(before)


def _plain(task: SupervisedTask, x: Tensor) -> Logits:
    return task(x.to(task.mean.device)).float().cpu()


def _outputs(
    task: SupervisedTask, batches: Batches, n: int, *, select: Select, replace: bool, seed: int
) -> tuple[Float[Tensor, "n images classes"], Float[Tensor, "n images"]]:
    """Outputs for every view of every image, and the weights that the augmenter gives them."""
    aug, model, device = task.augmenter, task.predictor, task.mean.device
    generator = torch.Generator(device).manual_seed(seed)
    outputs, weights = [], []
    for pixels, _ in batches:
        x = task.normalize(pixels.to(device))
        views: Views = aug.views(x, n, select=select, replace=replace, generator=generator)
        rows = [model(as_input_of(model, aug.render(x, theta))) for theta in views.theta]
        outputs.append(torch.stack(rows).float().cpu())
        weights.append(Merging("weighted").weights(views).cpu())
    return torch.cat(outputs, dim=1), torch.cat(weights, dim=1)


def _choose_merging(
    plain: Logits, outputs: Float[Tensor, "n images classes"], targets: Int[Tensor, " images"],
    seed: int,
) -> Merging:  # fmt: skip
    """The mean, or weights by confidence as sharp as is best."""
    calibration = fit_temperature(plain, targets)
    every = torch.cat([plain[:, None], outputs.movedim(0, 1)], dim=1)
    table = ViewTable(every.numpy(), targets, calibration=calibration)
    sharpness = choose_sharpness(table, [every.shape[1]], seed=seed)
    if not sharpness:
        return Merging()
    return Merging("confidence", sharpness=sharpness, calibration=calibration)


def _losses_and_right(
    merged: Mapping[float, Logits], targets: Int[Tensor, " images"]
) -> tuple[dict[float, Float[Tensor, " images"]], dict[float, Bool[Tensor, " images"]]]:
    """Losses at the temperature that suits the first outputs, and which images are right."""
    temperature = fit_temperature(next(iter(merged.values())), targets)
    losses = {
        number: F.cross_entropy(logits / temperature, targets, reduction="none")
        for number, logits in merged.items()
    }
    return losses, {number: logits.argmax(dim=1) == targets for number, logits in merged.items()}


def _choices_of_other_halves(
    losses: Mapping[float, Float[Tensor, " images"]],
) -> tuple[float, float]:
    """The dependence for images 0, 2, ..., chosen by 1, 3, ..., and the reverse."""
    odd, even = (
        choose_by_loss({number: values[start::2] for number, values in losses.items()})
        for start in (1, 0)
    )
    return odd, even


def _alternate(values: Mapping[float, Tensor], numbers: tuple[float, float]) -> Tensor:
    """Values of images 0, 2, ... for the first number, and of the others for the second."""
    found = values[numbers[0]].clone()
    found[1::2] = values[numbers[1]][1::2]
    return found
