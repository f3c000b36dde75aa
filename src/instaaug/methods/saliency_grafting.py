"""Saliency grafting: random salient places of one image on another, labels by saliency."""

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.methods.mixing import Mixture, PairMixer
from instaaug.methods.registry import METHODS
from instaaug.methods.saliency import SaliencyMixer, feature_saliency
from instaaug.shapes import Images, Scalars, repeat_batch

__all__ = ["SaliencyGrafting", "graft_share", "normalize_maps"]

Grids = Float[Tensor, "batch rows columns"]


@METHODS.register("saliency_grafting")
class SaliencyGrafting(PairMixer, SaliencyMixer):
    r"""Grafts places at which the model looks from a partner onto every image.

    The magnitudes of the model's last feature maps, scaled to [0, 1], pass through a softmax with
    the temperature T: s of the image, s' of its partner. Places of the partner above the mean of
    s' are salient; each of them is grafted with the probability p from Beta(α, α), one for the
    batch. With M the places that were grafted, the partner counts with

    .. math:: \frac{\sum_{i \in M} s'_i}{\sum_{i \in M} s'_i + \sum_{i \notin M} s_i}

    and the image with the rest. θ is p and the partner. The saliency costs a forward pass.

    No code was published: the scale before the softmax and the values of T and α are ours.

    Arguments:
        alpha: α of the law of p; below 1, nearly all or hardly any places are grafted.
        temperature: T; the higher, the more alike all places count.
        size: Output side; the input's own by default.

    References:
        | Saliency Grafting: Innocuous Attribution-Guided Mixup with Calibrated Label Mixing
        | (Park et al., 2022)
        | https://arxiv.org/abs/2112.08796

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug = SaliencyGrafting()
        >>> aug.attach(SmallCNN(3))
        >>> batch = aug(torch.rand(4, 3, 32, 32), targets=torch.tensor([0, 1, 2, 0]))
        >>> batch.inputs.shape, batch.shares.sum(dim=0)
        (torch.Size([4, 3, 32, 32]), tensor([1., 1., 1., 1.]))
    """

    def __init__(
        self, *, alpha: float = 1.0, temperature: float = 0.2, size: int | None = None
    ) -> None:
        super().__init__(alpha, size=size)
        if not temperature > 0:
            raise ArgumentError(
                f"`temperature` must be above 0: got {temperature}. A large one makes all places "
                "equally salient."
            )
        self.temperature = float(temperature)

    @override
    def mix_batch(
        self,
        x: Images,
        theta: Float[Tensor, "n batch d"],
        targets: Tensor | None,
        generator: Generator | None,
    ) -> Mixture:
        saliency = normalize_maps(feature_saliency(self.model, x), temperature=self.temperature)
        probability, partner = theta.flatten(0, 1).unbind(-1)
        partner = partner.long()
        own, other = repeat_batch(saliency, len(theta)), saliency[partner]
        coin = torch.rand(other.shape, generator=generator, device=x.device)
        salient = other > other.mean(dim=(1, 2), keepdim=True)
        grafted = salient & (coin < probability[:, None, None])
        pixels = F.interpolate(grafted[:, None].float(), size=x.shape[-2:], mode="nearest-exact")
        mixed = torch.where(pixels > 0, x[partner], repeat_batch(x, len(theta)))
        share = graft_share(own, other, grafted)
        shares = torch.stack([1 - share, share])
        return Mixture(mixed, partner[None], shares)

    @override
    def extra_repr(self) -> str:
        return f"alpha {self.alpha:g}, temperature {self.temperature:g}"


def normalize_maps(maps: Grids, *, temperature: float) -> Grids:
    """The softmax of maps that were scaled to [0, 1].

    Example:
        >>> normalize_maps(torch.tensor([[[3.0, 5.0]]]), temperature=1.0)  # 1 : e
        tensor([[[0.2689, 0.7311]]])
    """
    low, high = (ends(maps, dim=(1, 2), keepdim=True) for ends in (torch.amin, torch.amax))
    scaled = (maps - low) / (high - low).clamp(min=torch.finfo(maps.dtype).tiny)
    return (scaled / temperature).flatten(1).softmax(dim=1).view_as(maps)


def graft_share(own: Grids, other: Grids, grafted: Bool[Tensor, "batch rows columns"]) -> Scalars:
    """How much the partner counts: its share of the saliency that can be seen.

    Example:
        >>> half = torch.tensor([[[True, False]]])
        >>> own, other = torch.tensor([[[0.9, 0.1]]]), torch.tensor([[[0.3, 0.7]]])
        >>> graft_share(own, other, half)  # 0.3 of the partner, 0.1 of the image itself
        tensor([0.7500])
    """
    shown = torch.where(grafted, other, 0.0).sum(dim=(1, 2))
    return shown / (shown + torch.where(grafted, 0.0, own).sum(dim=(1, 2)))
