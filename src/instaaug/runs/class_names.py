"""Classes of data, numbered as a model numbers them."""

from dataclasses import replace

import torch

from instaaug.data import LabeledImages
from instaaug.errors import DataError

__all__ = ["with_classes"]


def with_classes(images: LabeledImages, classes: tuple[str, ...]) -> LabeledImages:
    """The same images, their classes numbered as the model numbers them; a regression as it is.

    Raises:
        DataError: If there are classes that the model does not know.
    """
    unknown = sorted(set(images.classes) - set(classes))
    if unknown:
        raise DataError(
            f"`data` must have the classes that the model knows: {', '.join(unknown[:3])} "
            f"{'is' if len(unknown) == 1 else 'are'} new. It knows "
            f"{', '.join(classes[:10])}."
        )
    number = torch.tensor([classes.index(name) for name in images.classes])
    targets = number[images.targets] if images.classes else images.targets
    return replace(images, targets=targets, classes=classes)
