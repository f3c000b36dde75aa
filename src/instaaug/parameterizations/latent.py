"""The VAE-like parameterization: a Gaussian latent variable and a neural decoder."""

from math import log

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.distributions import DecodedGaussian
from instaaug.distributions.decoded_gaussian import Latents, LogDet
from instaaug.errors import ArgumentError
from instaaug.parameterizations.families import Family, Raw
from instaaug.shapes import at_least_float32
from instaaug.spaces import Interval

__all__ = ["CouplingDecoder", "LatentFamily"]

N_HIDDEN = 16
MAX_LOG_STRETCH = 2.0  # of one coordinate by the others
LOG_SCALES = (-7.0, 2.0)
NEAREST_SHARE = 0.15  # of the range: the start stays that far from its ends
WIDEST_START = 1.6  # a squashed Gaussian that is wider piles up at the ends


class CouplingDecoder(nn.Module):
    r"""An invertible neural network: each coordinate is stretched and moved as the others say.

    .. math:: z_d \leftarrow z_d \exp(u_d(z_{-d})) + v_d(z_{-d}), \qquad d = 1, \dots, D,

    with a small network for each :math:`(u_d, v_d)`. It starts as the identity, and stays it if
    there is a single coordinate.

    Arguments:
        dimensions: D.

    References:
        | Density estimation using Real NVP (Dinh et al., 2017)
        | https://arxiv.org/abs/1605.08803

    Example:
        >>> decoded, log_det = CouplingDecoder(3).decode(torch.ones(2, 3))
        >>> decoded[0], log_det
        (tensor([1., 1., 1.], grad_fn=...), tensor([0., 0.], grad_fn=...))
    """

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        others = dimensions - 1
        self.couplings = nn.ModuleList(
            nn.Sequential(nn.Linear(others, N_HIDDEN), nn.Tanh(), nn.Linear(N_HIDDEN, 2))
            for _ in range(dimensions if others else 0)
        )
        for coupling in self.couplings:
            assert isinstance(coupling, nn.Sequential)  # noqa: S101  # nn.ModuleList is untyped
            for parameter in coupling[-1].parameters():
                nn.init.zeros_(parameter)

    def decode(self, z: Latents) -> tuple[Latents, LogDet]:
        """What becomes of ``z``, and the logarithm of the Jacobian's determinant."""
        log_det = z.new_zeros(z.shape[:-1])
        for d, coupling in enumerate(self.couplings):
            before, own, after, stretch, shift = self._split(coupling, z, d)
            z = torch.cat([before, own * stretch.exp() + shift, after], dim=-1)
            log_det = log_det + stretch.squeeze(-1)
        return z, log_det

    def encode(self, y: Latents) -> Latents:
        """The latent variables whose image is ``y``."""
        for d, coupling in reversed(list(enumerate(self.couplings))):
            before, own, after, stretch, shift = self._split(coupling, y, d)
            y = torch.cat([before, (own - shift) * (-stretch).exp(), after], dim=-1)
        return y

    def _split(self, coupling: nn.Module, z: Latents, d: int) -> tuple[Tensor, ...]:
        """What comes before coordinate d, itself, what comes after, u and v."""
        before, own, after = z[..., :d], z[..., d : d + 1], z[..., d + 1 :]
        u, v = coupling(torch.cat([before, after], dim=-1)).split(1, dim=-1)
        return before, own, after, MAX_LOG_STRETCH * (u / MAX_LOG_STRETCH).tanh(), v


class LatentFamily(Family):
    """Gaussian latent variables, as many as parameters, and a decoder that all inputs share.

    Raw numbers are the mean of each latent variable and the logarithm of its standard deviation,
    as an encoder gives them in a variational autoencoder. The InstaAug paper tried this for the
    centers and sizes of crops; it says no more of the decoder than that it is a neural one. That
    it is invertible here is our choice: otherwise the entropy could only be bounded.

    Arguments:
        space: Parameters that are all learned.

    Example:
        >>> from instaaug.transforms import UniformCrop
        >>> family = LatentFamily(UniformCrop().spaces["box"])
        >>> start = family(family.raw_at(-1.0)[None])
        >>> round(float(start.entropy().detach()), 2)
        -1.0
    """

    is_finite = False
    low: Tensor
    high: Tensor
    factors: Tensor | None

    def __init__(self, space: Interval) -> None:
        super().__init__()
        parameters = space.parameters
        fixed = [p.name for p in parameters if not p.learned]
        if fixed:
            raise ArgumentError(
                "`ranges` must be 'uniform' for a transform with a parameter that is not learned: "
                f"{', '.join(fixed)} is drawn from all of its range, not decoded."
            )
        self.n_raw, self.max_entropy = 2 * len(parameters), space.max_entropy
        self.decoder = CouplingDecoder(len(parameters))
        shares = [p.rooms[0] / p.width for p in parameters]
        self.start = torch.tensor(shares).clamp(NEAREST_SHARE, 1 - NEAREST_SHARE).logit()
        ends = {
            "low": [p.coordinate(p.low) for p in parameters],
            "high": [p.coordinate(p.high) for p in parameters],
        }
        for name, values in ends.items():
            self.register_buffer(name, torch.tensor(values), persistent=False)
        factors = torch.tensor([p.multiplicative for p in parameters])
        self.register_buffer("factors", factors if factors.any() else None, persistent=False)

    @override
    def forward(self, raw: Raw) -> DecodedGaussian:
        loc, log_scale = at_least_float32(raw).chunk(2, dim=-1)
        bounded = log_scale.detach().clamp(*LOG_SCALES)
        scale = (log_scale + (bounded - log_scale.detach())).exp()  # keeps the gradient
        ends = self.low.to(loc.dtype), self.high.to(loc.dtype)
        return DecodedGaussian(loc, scale, self.decoder, *ends, self.factors, validate_args=False)

    @override
    @torch.no_grad()
    def raw_at(self, entropy: float) -> Float[Tensor, " n_raw"]:
        """Near the identity, as wide as the entropy asks for, or nearly."""
        low, high = LOG_SCALES[0], log(WIDEST_START)
        for _ in range(30):
            middle = (low + high) / 2
            is_below = float(self(self._raw(middle)[None]).entropy()) < entropy
            low, high = (middle, high) if is_below else (low, middle)
        return self._raw((low + high) / 2)

    def _raw(self, log_scale: float) -> Float[Tensor, " n_raw"]:
        start = self.start.to(self.low.device)
        return torch.cat([start, torch.full_like(start, log_scale)])
