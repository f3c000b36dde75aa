"""MixMo: two inputs at a time through one network with two stems and two heads."""

from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, LossesOf
from instaaug.augmentation.augmenter import TASKS
from instaaug.errors import ArgumentError
from instaaug.methods.mixing import box_pixels, check_alpha, draw_beta, draw_boxes, draw_partners
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import SimpleAugmenter
from instaaug.networks.encoders import PenultimateFeatures
from instaaug.networks.model_interface import unwrap_compiled
from instaaug.shapes import Images, Maps, Rendered, Rows

__all__ = ["MixMo", "TwoInputNetwork"]

Masks = Float[Tensor, "batch 1 height width"]
Logits = Float[Tensor, "batch outputs"]


@METHODS.register("mixmo")
class MixMo(SimpleAugmenter):
    r"""Trains two classifiers in one network on two inputs at a time, mixed after the first layer.

    :meth:`adapt` gives the model a second stem and a second head (:class:`TwoInputNetwork`). In
    training, the maps of an input and of its partner are mixed by a mask, and each head is asked
    for one of the two:

    .. math:: \ell_i = w_0\,\ell(f_0, y_i) + w_1\,\ell(f_1, y_{\pi(i)}), \qquad
              w_j = 2\,\lambda_j^{1/r} \big/ \bigl(\lambda_0^{1/r} + \lambda_1^{1/r}\bigr)

    With λ from Beta(α, α), the mask is a box of the area λ for a whole batch or, else, the number
    λ; which of the two inputs has the box is drawn for each batch as well. Elsewhere both stems
    see the same image, and the answer is the mean of the heads.

    θ is the box in pixels, left, right, top and bottom; the mask inside and outside of it; and the
    partner π(i). Images are left as they are. The source repeats every image four times in a
    batch, with four partners: ``n_samples`` 4.

    Arguments:
        alpha: α of the law of shares; below 1, most are near 0 or 1.
        cut: Probability of a box.
        root: r; 1 weights the losses by the shares, a large one equally.
        size: Output side; the input's own by default.

    References:
        | MixMo: Mixing Multiple Inputs for Multiple Outputs via Deep Subnetworks
        | (Ramé et al., 2021)
        | https://arxiv.org/abs/2103.06132

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug = MixMo()
        >>> model = aug.adapt(SmallCNN(3))
        >>> x, y = torch.rand(4, 3, 16, 16), torch.tensor([0, 1, 2, 0])
        >>> losses_of = lambda outputs, y: F.cross_entropy(outputs, y, reduction="none")
        >>> aug.losses(model, aug(x, targets=y), losses_of).shape, model(x).shape
        (torch.Size([4]), torch.Size([4, 3]))
    """

    tasks = TASKS - {"contrastive"}
    needs_labels = True
    averages_views = False
    changes_single_images = False

    def __init__(
        self,
        *,
        alpha: float = 2.0,
        cut: float = 0.5,
        root: float = 3.0,
        size: int | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        if not 0 <= cut <= 1:
            raise ArgumentError(
                f"`cut` must be a probability in [0, 1]: got {cut}. 0 mixes by numbers alone."
            )
        if not root > 0:
            raise ArgumentError(f"`root` must be above 0: got {root}. 3 is the source's.")
        check_alpha(alpha)
        self.alpha, self.cut, self.root = float(alpha), float(cut), float(root)

    @override
    def adapt(self, model: nn.Module) -> nn.Module:
        """The model with two stems and two heads; its own layers are taken over."""
        is_adapted = isinstance(unwrap_compiled(model), TwoInputNetwork)
        return model if is_adapted else TwoInputNetwork(model)

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        x = self.canonical(x)  # boxes are in pixels of what comes out
        shape, device = (n_samples, len(x)), x.device
        share = draw_beta(self.alpha, shape, like=x, generator=generator)
        coins = torch.rand(2, n_samples, 1, generator=generator, device=device)
        is_box, swapped = coins[0] < self.cut, coins[1] < 0.5
        edges = draw_boxes(x, share.sqrt(), generator)
        inside = torch.where(is_box, torch.where(swapped, 0.0, 1.0), share)
        outside = torch.where(is_box, torch.where(swapped, 1.0, 0.0), share)
        partner = draw_partners(x, n_samples, generator)
        return torch.stack([*edges.unbind(-1), inside, outside, partner], dim=-1).float()

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        """The images as they are, but for their size."""
        return self.canonical(x)

    def masks(self, x: Images, theta: Rows) -> Masks:
        """How much of each place is the input's own, by its row of θ."""
        inside, outside = theta[:, 4:6].to(x.dtype).T[:, :, None, None, None]
        return torch.where(box_pixels(x, theta[:, :4]), inside, outside)

    @override
    def losses(self, model: nn.Module, batch: AugmentedBatch, losses_of: LossesOf) -> Tensor:
        """The sum of the losses of both heads, which count by the roots of the shares."""
        if not isinstance(unwrap_compiled(model), TwoInputNetwork):
            raise ArgumentError(
                "`model` must have two stems and two heads: got "
                f"{type(unwrap_compiled(model)).__name__}. Train aug.adapt(model)."
            )
        assert batch.targets is not None  # noqa: S101  # needs_labels
        rows = batch.theta.flatten(0, 1)
        partner, mask = rows[:, -1].long(), self.masks(batch.inputs, rows)
        first, second = model(batch.inputs, batch.inputs[partner], mask)
        share = mask.mean(dim=(1, 2, 3))
        roots = torch.stack([share, 1 - share]).clamp(min=0) ** (1 / self.root)
        own, other = 2 * roots / roots.sum(dim=0)
        losses = losses_of(first, batch.targets)
        return own * losses + other * losses_of(second, batch.targets[partner])

    @override
    def extra_repr(self) -> str:
        return f"alpha {self.alpha:g}, boxes {self.cut:.0%}"


class TwoInputNetwork(nn.Module):
    """A network with two stems, for two images that are mixed, and two heads, one for each.

    The stem is the first convolution of a network, the head its last linear layer. The second stem
    has random weights of the same spread, the heads are one layer with twice the outputs.

    Arguments:
        network: Any network with a convolution and a linear layer; it is changed.

    Shape:
        - ``forward(x)``: the mean of the heads for an image that both stems see
        - ``forward(x, partner, mask)``: what each head says of a mixture

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> network, x = TwoInputNetwork(SmallCNN(10)), torch.rand(2, 3, 32, 32)
        >>> first, second = network(x, x.flip(0), torch.full((2, 1, 32, 32), 0.5))
        >>> first.shape, second.shape, network(x).shape
        (torch.Size([2, 10]), torch.Size([2, 10]), torch.Size([2, 10]))
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        network = unwrap_compiled(network)
        names = {part: name for name, part in network.named_modules()}
        stems = [part for part in names if isinstance(part, nn.Conv2d)]
        if not stems or stems[0] is network:
            raise ArgumentError(
                "`model` must begin with a convolution, of which MixMo makes two: got "
                f"{type(network).__name__} without one. Choose preact_resnet18 or small_cnn."
            )
        head = PenultimateFeatures(network).head
        twice = nn.Linear(head.in_features, 2 * head.out_features, bias=head.bias is not None)
        network.set_submodule(names[head], twice.to(head.weight))
        network.set_submodule(names[stems[0]], _TwoStems(stems[0]))
        self.network = network

    @override
    def forward(
        self, x: Images, partner: Images | None = None, mask: Masks | None = None
    ) -> Logits | tuple[Logits, Logits]:
        if partner is None or mask is None:
            first, second = self.network(x).chunk(2, dim=-1)
            return (first + second) / 2
        # one tensor, for that is what networks take: both images, and the mask as a channel
        both = self.network(torch.cat([x, partner, mask.to(x.dtype)], dim=1))
        first, second = both.chunk(2, dim=-1)
        return first, second


class _TwoStems(nn.Module):
    """Two convolutions, the maps of which are added as a mask says."""

    def __init__(self, stem: nn.Conv2d) -> None:
        super().__init__()
        self.first, self.second = stem, deepcopy(stem)
        nn.init.normal_(self.second.weight, std=float(stem.weight.detach().std(correction=0)))

    @override
    def forward(self, x: Images) -> Maps:
        channels = self.first.in_channels
        if x.shape[1] == channels:
            return self.first(x) + self.second(x)
        if x.shape[1] != 2 * channels + 1:
            raise ArgumentError(
                "`model` must give its images to its first convolution as they are: got "
                f"{x.shape[1]} channels for two images of {channels} and a mask. Choose "
                "preact_resnet18 or small_cnn."
            )
        own, other, mask = x.split((channels, channels, 1), dim=1)
        first, second = self.first(own), self.second(other)
        share = F.adaptive_avg_pool2d(mask, first.shape[-2:]).to(first.dtype)
        return 2 * torch.lerp(second, first, share)
