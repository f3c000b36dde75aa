"""AutoAugment: pairs of operations that a search found on ImageNet or CIFAR-10."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.errors import UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import NARROW, DrawnOperations, Interpolation, operation_index
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images

__all__ = ["POLICIES", "AutoAugment", "Policy"]

Policy = Literal["imagenet", "cifar10"]
Step = tuple[str, float, int]
N_BINS = 10

POLICIES: Mapping[str, tuple[tuple[Step, Step], ...]] = {
    "imagenet": (
        (("posterize", 0.4, 8), ("rotate", 0.6, 9)),
        (("solarize", 0.6, 5), ("auto_contrast", 0.6, 5)),
        (("equalize", 0.8, 8), ("equalize", 0.6, 3)),
        (("posterize", 0.6, 7), ("posterize", 0.6, 6)),
        (("equalize", 0.4, 7), ("solarize", 0.2, 4)),
        (("equalize", 0.4, 4), ("rotate", 0.8, 8)),
        (("solarize", 0.6, 3), ("equalize", 0.6, 7)),
        (("posterize", 0.8, 5), ("equalize", 1.0, 2)),
        (("rotate", 0.2, 3), ("solarize", 0.6, 8)),
        (("equalize", 0.6, 8), ("posterize", 0.4, 6)),
        (("rotate", 0.8, 8), ("color", 0.4, 0)),
        (("rotate", 0.4, 9), ("equalize", 0.6, 2)),
        (("equalize", 0.0, 7), ("equalize", 0.8, 8)),
        (("invert", 0.6, 4), ("equalize", 1.0, 8)),
        (("color", 0.6, 4), ("contrast", 1.0, 8)),
        (("rotate", 0.8, 8), ("color", 1.0, 2)),
        (("color", 0.8, 8), ("solarize", 0.8, 7)),
        (("sharpness", 0.4, 7), ("invert", 0.6, 8)),
        (("shear_x", 0.6, 5), ("equalize", 1.0, 9)),
        (("color", 0.4, 0), ("equalize", 0.6, 3)),
        (("equalize", 0.4, 7), ("solarize", 0.2, 4)),
        (("solarize", 0.6, 5), ("auto_contrast", 0.6, 5)),
        (("invert", 0.6, 4), ("equalize", 1.0, 8)),
        (("color", 0.6, 4), ("contrast", 1.0, 8)),
        (("equalize", 0.8, 8), ("equalize", 0.6, 3)),
    ),
    "cifar10": (
        (("invert", 0.1, 7), ("contrast", 0.2, 6)),
        (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
        (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
        (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
        (("auto_contrast", 0.5, 8), ("equalize", 0.9, 2)),
        (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
        (("color", 0.4, 3), ("brightness", 0.6, 7)),
        (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
        (("equalize", 0.6, 5), ("equalize", 0.5, 1)),
        (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
        (("color", 0.7, 7), ("translate_x", 0.5, 8)),
        (("equalize", 0.3, 7), ("auto_contrast", 0.4, 8)),
        (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
        (("brightness", 0.9, 6), ("color", 0.2, 8)),
        (("solarize", 0.5, 2), ("invert", 0.0, 3)),
        (("equalize", 0.2, 0), ("auto_contrast", 0.6, 0)),
        (("equalize", 0.2, 8), ("equalize", 0.6, 4)),
        (("color", 0.9, 9), ("equalize", 0.6, 6)),
        (("auto_contrast", 0.8, 4), ("solarize", 0.2, 8)),
        (("brightness", 0.1, 3), ("color", 0.7, 0)),
        (("solarize", 0.4, 5), ("auto_contrast", 0.9, 3)),
        (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
        (("auto_contrast", 0.9, 2), ("solarize", 0.8, 3)),
        (("equalize", 0.8, 8), ("invert", 0.1, 3)),
        (("translate_y", 0.7, 9), ("auto_contrast", 0.9, 1)),
    ),
}
"""The 25 sub-policies of each: two steps of (operation, probability, bin of ten)."""


@METHODS.register("autoaugment")
class AutoAugment(DrawnOperations):
    """Draws one of 25 sub-policies per input; each of its two steps happens with a probability.

    The policies are those of the paper's appendix; the magnitudes (10 bins of shear 0.3, 150/331
    of the side, 30°, factors 1 ± 0.9, 8 to 4 bits, thresholds 255 to 0) and the black outside of
    the image are torchvision's. The authors' own code paints the outside in the mean color.

    Arguments:
        policy: The data that the policy was found on: ``"imagenet"`` or ``"cifar10"``.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation the images were normalized with.
        interpolation: How a warp reads between pixels: ``"nearest"`` as in the source, or
            ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Output side, or height and width; the input's own by default.

    References:
        | AutoAugment: Learning Augmentation Policies from Data (Cubuk et al., 2019)
        | https://arxiv.org/abs/1805.09501

    Example:
        >>> aug = AutoAugment("cifar10")
        >>> batch = aug(torch.rand(2, 3, 32, 32), n_samples=4)
        >>> batch.inputs.shape, batch.theta.shape
        (torch.Size([8, 3, 32, 32]), torch.Size([4, 2, 4]))
    """

    averages_views = False

    def __init__(
        self,
        policy: Policy = "imagenet",
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        if policy not in POLICIES:
            raise UnknownNameError("policy", policy, POLICIES)
        super().__init__(
            2, NARROW, N_BINS, mean=mean, std=std, interpolation=interpolation,
            padding_mode=padding_mode, size=size,
        )  # fmt: skip
        self.policy = policy

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        steps = [
            [(operation_index(o), p, b) for o, p, b in pair] for pair in POLICIES[self.policy]
        ]
        table = torch.tensor(steps, device=x.device)
        drawn = (n_samples, len(x))
        which = torch.randint(len(steps), drawn, generator=generator, device=x.device)
        operation, probability, magnitude_bin = table[which].unbind(dim=-1)
        chance = torch.rand(*drawn, 2, generator=generator, device=x.device)
        operation = torch.where(chance < probability, operation, operation_index("identity"))
        return self.signed_theta(x, operation.long(), magnitude_bin.long(), generator)

    @override
    def extra_repr(self) -> str:
        return f"policy of {self.policy}, {len(POLICIES[self.policy])} sub-policies"
