"""Ways to choose views that learn nothing, for comparison with learned ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.views import Select
from instaaug.errors import UnknownNameError
from instaaug.methods import (
    AutoAugment,
    FastAutoAugment,
    FixedViews,
    RandAugment,
    RandomAugmentation,
    TrivialAugment,
)
from instaaug.methods.found_policies import imagenet_policy
from instaaug.parameterizations import CropGrid
from instaaug.runs.tta import FittedViews
from instaaug.transforms import Crop, Flip, Transform

__all__ = ["BASELINES", "Baseline", "find_baselines"]

SMALLEST = 0.28  # side of a random crop: 8 % of the area, as in Inception's training


@dataclass(frozen=True)
class Baseline:
    """A method that does not learn.

    Arguments:
        name: For people.
        augmenter: Makes its views.
        n_views: How many it has; None for as many as one wants.
        select: How they are chosen.
        least: Fewest views that make it another method than the image alone.
        share: Of the views that the model has seen, how many are merged: those of which it is
            most certain. All of them cost a pass.
    """

    name: str
    augmenter: Augmenter
    n_views: int | None = None
    select: Select = "sample"
    least: int = 1
    share: float = 1.0

    def counts(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Numbers of views to try, none above the largest wanted.

        Example:
            >>> Baseline("flips", FixedViews.flips(), 2).counts([1, 4, 10])
            (2,)
            >>> Baseline("ten crop", FixedViews.ten_crop(), 10).counts([1, 4])
            ()
        """
        if self.n_views is None:
            return tuple(count for count in wanted if count >= self.least)
        return (self.n_views,) if self.n_views <= max(wanted) else ()


def find_baselines(words: str, fitted: FittedViews) -> list[Baseline]:
    """The baselines that were asked for; the image alone is always among them.

    Arguments:
        words: Names with commas, ``"all"`` or ``"none"``.
        fitted: Says how the model wants its images.
    """
    names = [word.strip() for word in words.split(",") if word.strip()]
    if names == ["all"]:
        names = list(BASELINES)
    elif names == ["none"]:
        names = []
    for name in names:
        if name not in BASELINES:
            raise UnknownNameError("baseline", name, [*BASELINES, "all", "none"])
    chosen = dict.fromkeys(["image", *names])
    return [BASELINES[name](fitted) for name in chosen]


def image(fitted: FittedViews) -> Baseline:
    """The whole image alone."""
    whole = FixedViews.center_crop(1.0, size=fitted.facts.image_size)
    return Baseline("the image alone", whole, 1, "top")


def center(fitted: FittedViews) -> Baseline:
    """The middle of the image, 7/8 of each side."""
    return Baseline("center crop", FixedViews.center_crop(size=fitted.facts.image_size), 1, "top")


def flips(fitted: FittedViews) -> Baseline:
    """The image and its mirror image."""
    return Baseline(
        "image and mirror image", FixedViews.flips(size=fitted.facts.image_size), 2, "top"
    )


def five_crop(fitted: FittedViews) -> Baseline:
    """Four corners and the middle, 7/8 of each side."""
    return Baseline("five crop", FixedViews.five_crop(size=fitted.facts.image_size), 5, "top")


def ten_crop(fitted: FittedViews) -> Baseline:
    """The same five, and those of the mirror image."""
    return Baseline("ten crop", FixedViews.ten_crop(size=fitted.facts.image_size), 10, "top")


def random(fitted: FittedViews) -> Baseline:
    """Boxes of any place, with a side from 0.28 of the image's on."""
    crops = RandomAugmentation(Crop(), sizes=(SMALLEST, 1.0), size=fitted.facts.image_size)
    return Baseline("random crops", crops)


def grid(fitted: FittedViews) -> Baseline:
    """The boxes that φ chooses from, drawn uniformly without replacement."""
    boxes = CropGrid(fitted.config.crop.grid, max_outside=0.0)
    return Baseline("uniform grid", FixedViews.grid(boxes, size=fitted.facts.image_size))


def image_and_grid(fitted: FittedViews) -> Baseline:
    """The image itself, which φ has too, then the other boxes uniformly without replacement."""
    return Baseline("image, then uniform grid", _uniform(fitted, _boxes(fitted)), least=2)


def crops_and_mirror(fitted: FittedViews) -> Baseline:
    """The image itself, then the boxes and their mirror images, uniformly without replacement."""
    views = _uniform(fitted, _boxes(fitted), Flip())
    return Baseline("image, then grid and mirror images", views, least=2)


def most_certain(fitted: FittedViews) -> Baseline:
    """Half of the image and uniform boxes: those of which the model is most certain."""
    views = _uniform(fitted, _boxes(fitted))
    return Baseline("most certain half of image and grid", views, least=2, share=0.5)


def _boxes(fitted: FittedViews) -> Crop:
    return Crop(fitted.config.crop.grid, max_outside=0.0)


def _uniform(fitted: FittedViews, *transforms: Transform) -> InstaAug:
    """The image first, then everything else with the same probability."""
    aug = InstaAug(
        transforms,
        conditioning="none",
        in_channels=fitted.facts.channels,
        size=fitted.facts.image_size,
        keep_original=True,
    )
    for parameter in aug.phi.parameters():
        parameter.data.zero_()
    return aug.eval()


def auto_augment(fitted: FittedViews) -> Baseline:
    """AutoAugment's policy for ImageNet."""
    model, size = fitted.model, fitted.facts.image_size
    return Baseline("AutoAugment", AutoAugment(mean=model.mean, std=model.std, size=size))


def rand_augment(fitted: FittedViews) -> Baseline:
    """RandAugment with its usual strength."""
    model, size = fitted.model, fitted.facts.image_size
    return Baseline("RandAugment", RandAugment(mean=model.mean, std=model.std, size=size))


def trivial_augment(fitted: FittedViews) -> Baseline:
    """TrivialAugment: one operation of any strength."""
    model, size = fitted.model, fitted.facts.image_size
    return Baseline("TrivialAugment", TrivialAugment(mean=model.mean, std=model.std, size=size))


def fast_autoaugment(fitted: FittedViews) -> Baseline:
    """The policy that Fast AutoAugment has found for ImageNet."""
    model, size = fitted.model, fitted.facts.image_size
    policy = imagenet_policy()
    aug = FastAutoAugment(n_policies=len(policy), mean=model.mean, std=model.std, size=size)
    aug.set_policy(policy)
    return Baseline("Fast AutoAugment", aug)


BASELINES: Mapping[str, Callable[[FittedViews], Baseline]] = {
    "image": image,
    "center": center,
    "flips": flips,
    "five_crop": five_crop,
    "ten_crop": ten_crop,
    "random": random,
    "grid": grid,
    "image_and_grid": image_and_grid,
    "crops_and_mirror": crops_and_mirror,
    "most_certain": most_certain,
    "auto_augment": auto_augment,
    "fast_autoaugment": fast_autoaugment,
    "rand_augment": rand_augment,
    "trivial_augment": trivial_augment,
}
"""From a name on the command line to the function that makes the method."""
