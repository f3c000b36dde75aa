"""What was chosen in place of settings that were left open, and by which images, in words."""

from collections.abc import Iterator

from instaaug.augmentation import InstaAug
from instaaug.methods import find_method
from instaaug.networks.classifiers import describe_auto
from instaaug.runs.build import settle_phi, transform_names
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings

__all__ = ["describe_choices", "describe_validation"]

NEAR_COPIES = 0.8  # hundreds of independent images have 0.9 to 1.1


def describe_choices(config: TrainSettings, facts: DataFacts) -> str:
    """A sentence on all that was chosen; empty if everything was given.

    Arguments:
        config: Of the run.
        facts: On its data.

    Example:
        >>> facts = DataFacts(32, 3, ("cat", "dog"), 2, None, None, "")
        >>> describe_choices(TrainSettings.from_mapping({}), facts)
        'Chosen: images of 32 × 32 pixels, the model small_cnn, rotation.'
    """
    chosen = list(_choices(config, facts))
    return f"Chosen: {', '.join(chosen)}." if chosen else ""


def _choices(config: TrainSettings, facts: DataFacts) -> Iterator[str]:
    if config.data.image_size is None:
        yield f"images of {facts.decode_size} × {facts.decode_size} pixels"
    if config.model.name == "auto":
        yield f"the model {describe_auto(facts.image_size)}"
    learns = issubclass(find_method(config.method.name), InstaAug)
    if config.transforms == ("auto",) and (learns or config.method.name == "random"):
        yield " and ".join(transform_names(config))
    if learns and config.phi.goal == "auto" and settle_phi(config).goal == "usefulness":
        yield "φ that looks for useful views"


def describe_validation(config: TrainSettings, facts: DataFacts) -> str:
    """A sentence if validation images are near copies of training images; else empty.

    Arguments:
        config: Of the run.
        facts: On its data.

    Example:
        >>> facts = DataFacts(32, 3, ("cat", "dog"), 2, None, None, "", resemblance=0.95)
        >>> describe_validation(TrainSettings.from_mapping({}), facts)
        ''
    """
    unlike = facts.resemblance is None or facts.resemblance >= NEAR_COPIES
    if unlike or config.data.split == "similar":
        return ""
    return (
        "Validation images look more like training images than test images do: the nearest "
        f"training image is {facts.resemblance:.2f} times as far from them. What is chosen by "
        "them may be wrong for new images; `--data.split similar` holds out images that look "
        "alike together."
    )
