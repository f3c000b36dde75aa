"""Color: brightness, affine changes of intensity, HSV jitter, and pixels in [0, 1]."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.warp import replace_rows
from instaaug.shapes import Images, Maps, Rows, Scalars, match_layout, per_channel

__all__ = ["Normalization", "affine_intensity", "hsv_jitter", "luma"]


def luma(x: Images) -> Float[Tensor, "batch 1 height width"]:
    """Perceived brightness of RGB (ITU-R BT.601); the plain mean for any other channels."""
    if x.shape[1] != 3:
        return x.mean(dim=1, keepdim=True)
    red, green, blue = x.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def affine_intensity(x: Images, gain: Rows, offset: Rows) -> Images:
    """Scale and shift the intensity of each image, then clip to [0, 1]."""
    return torch.addcmul(offset[:, :, None, None], x, gain[:, :, None, None]).clamp(0, 1)


@dataclass(frozen=True)
class Normalization:
    """Undoes the normalization of images, and does it again.

    Arguments:
        mean: Per-channel mean the images were normalized with; None if they were not.
        std: Per-channel standard deviation they were normalized with.

    Example:
        >>> pixels = Normalization(mean=(0.5,), std=(0.25,))
        >>> x = torch.tensor([-2.0, 0.0, 2.0]).view(1, 1, 1, 3)
        >>> pixels.denormalize(x).flatten()
        tensor([0.0000, 0.5000, 1.0000])
        >>> torch.equal(pixels.normalize(pixels.denormalize(x)), x)
        True
    """

    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise ArgumentError("`mean` and `std` must be given together: got one of the two.")
        if self.std is not None and not all(value > 0 for value in self.std):
            raise ArgumentError(
                f"`std` must be above 0 in every channel: got {tuple(self.std)}. A constant "
                "channel may have 1."
            )

    def denormalize(self, x: Images) -> Images:
        """Images as they were before they were normalized, clipped to [0, 1]."""
        if self.mean is not None and self.std is not None:
            x = torch.addcmul(_per_channel(self.mean, x), x, _per_channel(self.std, x))
        return x.clamp(0, 1)

    def normalize(self, x: Images) -> Images:
        """Images in [0, 1], normalized."""
        if self.mean is None or self.std is None:
            return x
        return (x - _per_channel(self.mean, x)) / _per_channel(self.std, x)


def _per_channel(values: Sequence[float], x: Images) -> Float[Tensor, "1 _ 1 1"]:
    if len(values) not in (1, x.shape[1]):
        raise ShapeError(
            f"`mean` and `std` must have one value per channel: got {len(values)} for "
            f"{x.shape[1]} channels. A single value serves all channels."
        )
    return per_channel(values, like=x)


def hsv_jitter(x: Images, hue: Scalars | None, saturation: Scalars, value: Scalars) -> Images:
    r"""Shift the hue, scale the saturation and the value of RGB images in [0, 1].

    With :math:`V = \max`, chroma :math:`C = \max - \min` and hue :math:`h` in sextants of the
    circle, a channel whose hue is :math:`p` (red 0, green 2, blue 4) has the intensity

    .. math:: V - C\,k(h), \qquad k = \mathrm{clip}(d - 1, 0, 1), \qquad
        d = 3 - \bigl||h - p| - 3\bigr|

    with :math:`d` the distance from :math:`h` to :math:`p` on the circle. The jitter changes
    :math:`V`, :math:`C` and :math:`h` in this formula and nothing else:

    .. math:: V' = \min(V v, 1), \qquad C' = m r, \qquad m = \min(C s, V), \qquad r = V' / V

    A hue that is not shifted is left out of it, so that two equal channels stay equal. The
    gradient is that of the formula, and bounded at its kinks too; it has no gradient of its own.

    Arguments:
        x: RGB images in [0, 1].
        hue: Shift as a fraction of the circle; ``None`` skips the costly part. 0 shifts nothing.
        saturation: Factor s; the result is clipped to full saturation. 1 changes nothing.
        value: Factor v; the result is clipped to 1. 1 changes nothing.

    Returns:
        Images in [0, 1]; ``x`` to the last bit where hue, saturation and value are (0, 1, 1).

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
        >>> one, third = torch.ones(1), torch.tensor([1 / 3])
        >>> hsv_jitter(red, third, one, one).flatten()  # a third of the circle on
        tensor([0., 1., 0.])
    """
    planes = x.contiguous()  # what mixes one map with three channels is faster on them
    out = _HsvJitter.apply(planes, hue, saturation, value)  # type: ignore[no-untyped-call]
    return match_layout(x, out)


class _HsvJitter(torch.autograd.Function):
    """Saves only its inputs for the backward pass, which recomputes all the rest."""

    @staticmethod
    def forward(x: Images, hue: Scalars | None, saturation: Scalars, value: Scalars) -> Images:
        V, C, new_V, r, m = _parts(x, saturation, value)
        new_C = m.mul_(r)
        if hue is None:
            return _keep_hue(x, V, C, new_V, new_C)
        two_minus_k = _two_minus_k(_shift_hue(_signed_hue(x, V, C), hue))
        turned = torch.addcmul(new_V - 2 * new_C, new_C, two_minus_k, out=two_minus_k)
        parts = (x, V, C, new_V, new_C)
        return replace_rows(turned, hue == 0, lambda rows: _keep_hue(*(p[rows] for p in parts)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor | None, ...], _output: Images) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Images) -> tuple[Tensor | None, ...]:
        return _slopes(gradient.contiguous(), *ctx.saved_tensors, of_x=ctx.needs_input_grad[0])


def _keep_hue(x: Images, V: Maps, C: Maps, new_V: Maps, new_C: Maps) -> Images:
    """New value and chroma at the old hue: linear in the color, and exact where both are old."""
    stretch = _ratio(new_C, C)
    return torch.addcmul(new_V - stretch * V, stretch, x)


def _slopes(
    G: Images,
    x: Images,
    hue: Scalars | None,
    saturation: Scalars,
    value: Scalars,
    *,
    of_x: bool,
) -> tuple[Tensor | None, ...]:
    r"""The derivatives by x (if asked for), hue, saturation and value; G is that by the result.

    They are made of three sums over channels, the derivatives by V', by C', and by h per C':

    .. math:: a = \sum_c G_c, \qquad b = -\sum_c G_c k_c(h), \qquad e = -\sum_c G_c k_c'(h)

    Between whole sextants k is linear, so that its values at either end give both b and e.
    """
    V, C, new_V, r, m = _parts(x, saturation, value)
    old_h = _signed_hue(x, V, C)
    h = _shift_hue(old_h, hue)
    whole = h.floor()
    a = _over_channels(G)
    start, end = (_over_channels(_two_minus_k(i).mul_(G)) for i in (whole, whole + 1))
    b = start.lerp(end, h - whole).sub_(a, alpha=2)
    e = end - start
    free_V = (1 - new_V).sign_()  # 1 where V' is not clipped, else 0
    free_m = (V - m).sign_()  # 1 where m is not clipped, else 0
    br = b * r

    of_theta = (
        None if hue is None else 6 * _over_pixels((e * m).mul_(r), hue),
        _over_pixels((br * C).mul_(free_m), saturation),
        _over_pixels((a * V).addcmul_(b, m).mul_(free_V), value),
    )
    if not of_x:
        return None, *of_theta

    # The old hue has the distance 2 + n / C from red, with n = green + blue - red - V.
    of_n = (e * old_h.sign()).mul_(_ratio(m * r, C))
    of_C = (br * free_m).mul_(_per_image(saturation, x)).addcmul_(of_n, 2 - old_h.abs())
    of_V = (a * free_V).mul_(_per_image(value, x)).sub_(of_n)
    of_V.addcmul_(br, 1 - free_m).addcmul_(br * _ratio(m, V), free_V - 1)
    slope = _split_equally(of_V + of_C, V - x)
    slope.sub_(_split_equally(of_C, x - x.amin(dim=1, keepdim=True)))
    return slope.addcmul_(of_n, per_channel((-1, 1, 1), like=of_n)), *of_theta


def _parts(x: Images, saturation: Scalars, value: Scalars) -> tuple[Maps, ...]:
    """V, C, V', r and m."""
    V = x.amax(dim=1, keepdim=True)
    C = V - x.amin(dim=1, keepdim=True)
    new_V = (V * _per_image(value, x)).clamp_(max=1)
    m = (C * _per_image(saturation, x)).minimum(V)
    return V, C, new_V, _ratio(new_V, V), m


def _signed_hue(x: Images, V: Maps, C: Maps) -> Maps:
    """The hue in sextants from -3 to 3, negative if there is more blue than green.

    Its distance from red is 2 + (green + blue - red - V) / C, wherever on the circle.
    """
    red, green, blue = x.split(1, dim=1)
    distance = _ratio((green - red).add_(blue - V), C).add_(2)
    return distance.copysign_(green - blue)


def _shift_hue(h: Maps, hue: Scalars | None) -> Maps:
    """The hue after the shift, in sextants from 0 to 6."""
    if hue is not None:
        h = h + 6 * _per_image(hue, h)
    return h - (h / 6).floor_().mul_(6)


def _two_minus_k(h: Maps) -> Images:
    """2 - k, which takes one operator less than k."""
    return (h - per_channel((0, 2, 4), like=h)).abs_().sub_(3).abs_().clamp_(1, 2)


def _split_equally(slope: Maps, gap: Images) -> Images:
    """The slope in equal shares for the channels whose gap is zero."""
    closed = gap.sign_().neg_().add_(1)
    return closed.mul_(slope / _over_channels(closed))


def _over_channels(maps: Images) -> Maps:
    return maps.sum(dim=1, keepdim=True)


def _over_pixels(maps: Maps, theta: Scalars) -> Scalars:
    return maps.sum(dim=(1, 2, 3), dtype=theta.dtype)


def _per_image(theta: Scalars, x: Tensor) -> Float[Tensor, "batch 1 1 1"]:
    return theta.to(x.dtype)[:, None, None, None]


def _ratio(part: Maps, whole: Maps) -> Maps:
    """The quotient, and zero where both are zero."""
    return (part / whole).nan_to_num_()
