"""Every method by its name: from settings and facts on the data to an augmenter."""

from collections.abc import Callable, Mapping
from typing import Any

from instaaug import methods
from instaaug.augmentation import Augmenter, InstaAug
from instaaug.errors import ArgumentError
from instaaug.runs.config import TrainConfig
from instaaug.runs.data_facts import DataFacts
from instaaug.runs.method_options import method_options
from instaaug.runs.named_transforms import levels_of, transforms_of
from instaaug.objectives import Baseline
from instaaug.registry import Registry
from instaaug.transforms.color import ColorTransform

__all__ = ["AUGMENTERS", "make_augmenter"]

AUGMENTERS: Registry[Callable[[TrainConfig, DataFacts], Augmenter]] = Registry("method")


def make_augmenter(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """The augmenter that the settings name."""
    return AUGMENTERS[config.method](config, facts)


def _made(
    kind: Callable[..., Augmenter], config: TrainConfig, known: Mapping[str, Any]
) -> Augmenter:
    """A method with its own options, and what other settings and the data say."""
    return kind(**known, **method_options(config.options, kind, but=known))


def _of_images(config: TrainConfig, facts: DataFacts) -> dict[str, Any]:
    return {"mean": facts.mean, "std": facts.std, "padding_mode": config.padding_mode}


@AUGMENTERS.register("none")
def no_augmentation(config: TrainConfig, facts: DataFacts) -> Augmenter:  # noqa: ARG001
    """Images as they are."""
    return _made(methods.NoAugmentation, config, {})


@AUGMENTERS.register("random")
def random_augmentation(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """The same hand-set ranges for every image."""
    known = {"transforms": transforms_of(config), **_of_images(config, facts)}
    known |= {"strength": config.strength, "sizes": config.sizes}
    return _made(methods.RandomAugmentation, config, known)


@AUGMENTERS.register("instaaug")
def instaaug(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Ranges and boxes learned per image."""
    if config.options:
        raise ArgumentError(
            f"`options` must be empty for instaaug: got {config.options!r}. All that it has are "
            "settings, such as `entropy`, `grid` and `rule`."
        )
    learns_from_input = config.conditioning == "input" and config.estimator != "exact"
    predicts = config.baseline in ("value", "critic")
    centered = config.task == "contrastive"  # by the task: then nothing is left to subtract
    instead: Baseline = "none" if centered else "batch"
    return InstaAug(
        transforms_of(config),
        diversity=config.diversity,
        entropy=config.entropy,
        conditioning=config.conditioning,
        network=config.network,
        width=config.phi_width,
        in_channels=facts.channels,
        num_classes=len(facts.classes) or None if config.conditioning == "class" else None,
        estimator=config.estimator,
        baseline=instead if predicts and not learns_from_input else config.baseline,
        rule=config.rule,
        weight=config.weight,
        mean=facts.mean,
        std=facts.std,
        padding_mode=config.padding_mode,
    )


@AUGMENTERS.register("augerino")
def augerino(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Augerino: one learned range for all images; affine, or of colors if transforms are."""
    known = _of_images(config, facts)
    if config.transforms in ("auto", "affine"):
        return _made(methods.Augerino, config, known)
    transforms = transforms_of(config)
    if not all(isinstance(transform, ColorTransform) for transform in transforms):
        raise ArgumentError(
            "`transforms` must be affine (or auto) or colors for augerino: got "
            f"{config.transforms!r}. For one learned range of other transforms take instaaug with "
            'conditioning="none"; for turns alone --options opened=turn.'
        )
    return _made(methods.AugerinoColor, config, {"transforms": transforms, **known})


@AUGMENTERS.register("adaaug")
def ada_augment(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """AdaAug: operations by the classifier's features, learned on held-out images."""
    return _made(methods.AdaAugment, config, _of_images(config, facts))


@AUGMENTERS.register("adacrops")
def ada_crops(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """AdaAug that chooses among the boxes of crops."""
    boxes = {"levels": levels_of(config.grid), "max_outside": config.max_outside}
    return _made(methods.AdaCrops, config, {**boxes, **_of_images(config, facts)})


@AUGMENTERS.register("metaaugment")
def meta_augment(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """MetaAugment: samples weighted by what they do for held-out images."""
    return _made(methods.MetaAugment, config, _of_images(config, facts))


@AUGMENTERS.register("autoaugment")
def auto_augment(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """AutoAugment: the published policies."""
    return _made(methods.AutoAugment, config, _of_images(config, facts))


@AUGMENTERS.register("randaugment")
def rand_augment(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """RandAugment: operations drawn at random, all of one strength."""
    return _made(methods.RandAugment, config, _of_images(config, facts))


@AUGMENTERS.register("trivialaugment")
def trivial_augment(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """TrivialAugment: one operation at random, of a random strength."""
    return _made(methods.TrivialAugment, config, _of_images(config, facts))


@AUGMENTERS.register("fast_autoaugment")
def fast_auto_augment(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Fast AutoAugment: a policy searched for on folds of the training images, then fixed."""
    return _made(methods.FastAutoAugment, config, _of_images(config, facts))


@AUGMENTERS.register("mixup")
def mixup(config: TrainConfig, facts: DataFacts) -> Augmenter:  # noqa: ARG001
    """MixUp: averages of two images and of their losses."""
    return _made(methods.MixUp, config, {})


@AUGMENTERS.register("cutmix")
def cutmix(config: TrainConfig, facts: DataFacts) -> Augmenter:  # noqa: ARG001
    """CutMix: a box of another image pasted in."""
    return _made(methods.CutMix, config, {})


@AUGMENTERS.register("spatial_transformer")
def spatial_transformer(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Spatial transformer: one learned transform per image, in training and at test time."""
    known = {"in_channels": facts.channels, **_of_images(config, facts)}
    return _made(methods.SpatialTransformer, config, known)


@AUGMENTERS.register("random_resized_crop")
def random_resized_crop(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """SimCLR's random crops: their area and shape are drawn, then their place."""
    return _made(methods.RandomResizedCrop, config, _of_images(config, facts))


@AUGMENTERS.register("unmix")
def un_mix(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Un-Mix: random crops, and first views mixed with one another (contrastive learning)."""
    return _made(methods.UnMix, config, _of_images(config, facts))


@AUGMENTERS.register("viewmaker")
def viewmaker(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Viewmaker: a network that makes bounded changes which are hard to see through."""
    known = {"in_channels": facts.channels, "mean": facts.mean, "std": facts.std}
    return _made(methods.Viewmaker, config, known)
