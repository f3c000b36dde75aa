"""Reading off an input how it was changed, so that what is drawn for it lies around that."""

from collections.abc import Callable, Iterator, Mapping

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks import FeatureNetwork, feature_channels
from instaaug.parameterizations.invariance import PooledHead
from instaaug.shapes import Images, Rendered, Rows, at_least_float32, repeat_batch
from instaaug.spaces import Interval, Parameter
from instaaug.transforms import Composition, Transform

__all__ = ["Undoing"]

OfFactor = Float[Tensor, "batch _"]  # it has fewer columns than θ
COMMON = 0.1  # weight of what all inputs have in common, beside how much two changes differ


class Undoing(nn.Module):
    r"""Finds how to bring an input back to what it would have been, had nothing happened to it.

    What was done to an input is never known, but what is done to it in addition is. Two changes
    :math:`\theta_1, \theta_2` of one input x must be undone to the same: with parameters on their
    axes, on which changes add up, the network r minimizes

    .. math:: \tfrac12 \left( (r(\tau(x; \theta_1)) + \theta_1)
              - (r(\tau(x; \theta_2)) + \theta_2) \right)^2,

    averaged over inputs and parameters, in units of half of each range. The brightness of a room
    or the color of a lamp then no longer matter: an image that was taken under another light is
    brought to where those of its kind were in training. Nothing pulls single inputs anywhere
    else; a tenth of the square of their mean is added, so that all together stay where they are.

    Only the transform that is reversible is undone; others are left alone.

    Arguments:
        transform: What may happen.
        network: Gives feature maps of an input.
        strength: Share of each range that inputs are changed by in training, above 0.
        in_channels: Channels of the inputs.

    References:
        | Equivariance with Learned Canonicalization Functions (Kaba et al., 2023)
        | https://arxiv.org/abs/2211.06489

    Example:
        >>> from instaaug.networks import make_network
        >>> from instaaug.transforms import Brightness, Crop
        >>> both = Composition((Crop(), Brightness(max_change=1.0)))
        >>> undoing = Undoing(both, make_network("glance", in_channels=3, width=1.0), strength=0.5)
        >>> undoing.draw(1000).aminmax().max < 2**0.5  # crops are not undone
        tensor(True)
        >>> undoing.start(both.identity(), {"brightness": torch.tensor([[2.0]]).log()})
        tensor([[0., 0., 2., 2., 2.]])
    """

    identity: Tensor
    room: Tensor
    period: Tensor
    factors: Tensor

    def __init__(
        self,
        transform: Composition,
        network: FeatureNetwork,
        *,
        strength: float,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        if not 0 < strength <= 1:
            raise ArgumentError(
                f"`undo` must be a share of each range, from 0 to 1: got {strength}. A half is a "
                "good start, 0 undoes nothing."
            )
        undone = list(_reversible(transform))
        if len(undone) != 1:
            names = ", ".join(t.name for t in transform.transforms)
            raise ArgumentError(
                "`undo` needs one transform of colors, for what two of them do does not add up: "
                f"got {names}. Choose one of white_balance, hsv_jitter, brightness and contrast, "
                "or leave it out."
            )
        part, self.first, self.name, parameters = undone[0]
        self.strength, self.network = strength, network
        self.changes = Composition((part,), mean=transform.mean, std=transform.std)
        channels = feature_channels(network, in_channels=in_channels)
        self.head = PooledHead(channels, torch.zeros(len(parameters)))
        nn.init.zeros_(self.head.linear.weight)  # nothing is undone before it is learned
        columns = {
            "identity": [p.coordinate(p.identity) for p in parameters],
            "room": [p.width / 2 for p in parameters],
            "period": [p.period or torch.inf for p in parameters],
            "factors": [p.multiplicative for p in parameters],
        }
        for name, values in columns.items():
            self.register_buffer(name, torch.tensor(values), persistent=False)

    @override
    def forward(self, x: Images) -> Rows:
        """What undoes the change of each input, in units of half of each range."""
        dtype = next((p.dtype for p in self.network.parameters()), x.dtype)
        maps = list(self.network(x.to(dtype)))
        return self.head(maps, None, 1).float()  # the number is for heads that read no maps

    def shifts(self, found: Rows) -> dict[str, Rows]:
        """By name of the factor, what :meth:`forward` found, on its axes and in its range."""
        shift = _around(found.detach(), self.period / self.room).clamp(-1, 1) * self.room
        return {self.name: shift}

    def start(self, identity: Rows, shifts: Mapping[str, OfFactor]) -> Rows:
        """θ that undoes what happened to each input, and does no more.

        Arguments:
            identity: θ that does nothing.
            shifts: What :meth:`shifts` returned.
        """
        end = self.first + len(self.room)
        before, own, after = at_least_float32(identity).tensor_split((self.first, end), dim=-1)
        shift = shifts[self.name]
        moved = torch.where(self.factors, own * shift.exp(), own + shift)
        return torch.cat([before, moved, after], dim=-1)

    def practice(
        self, x: Images, resize: Callable[[Images], Rendered], generator: Generator | None = None
    ) -> tuple[Rendered, dict[str, Rows], Float[Tensor, ""]]:
        """Change inputs in two ways: the first changes, what undoes them, and the loss.

        Arguments:
            x: Inputs of any size.
            resize: Makes them as the network reads them.
            generator: Source of randomness.
        """
        theta = self.draw(2 * len(x), generator)
        changed = self.changes.apply(repeat_batch(x, 2), theta)
        found = self(resize(changed))
        return changed[: len(x)], self.shifts(found[: len(x)]), self.loss(found, theta)

    def draw(self, n: int, generator: Generator | None = None) -> Rows:
        """Changes to practice on, uniform in the share of each range, one row for each input."""
        device = self.room.device
        drawn = 2 * torch.rand(n, len(self.room), generator=generator, device=device) - 1
        axis = self.identity + self.strength * self.room * drawn
        return torch.where(self.factors, axis.exp(), axis)

    def loss(
        self, found: Float[Tensor, "two_batches k"], theta: Float[Tensor, "two_batches k"]
    ) -> Float[Tensor, ""]:
        """How much what is left depends on the change.

        Arguments:
            found: What :meth:`forward` found for inputs, changed in one way and then in another.
            theta: How they were changed.
        """
        axis = torch.where(self.factors, theta.clamp(min=1e-12).log(), theta)
        left = found + (axis - self.identity) / self.room
        first, second = left.chunk(2)
        circle = self.period / self.room
        apart = _around(first - second, circle)
        common = _around(second + apart / 2, circle).mean(dim=0)
        return apart.square().mean() / 2 + COMMON * common.square().mean()


def _around(x: Float[Tensor, "n k"], circle: Float[Tensor, " k"]) -> Float[Tensor, "n k"]:
    """The shorter way round, where there is a circle."""
    turns = torch.where(circle.isfinite(), (x.detach() / circle).round(), 0.0)
    return x - turns * torch.where(circle.isfinite(), circle, 0.0)


def _reversible(
    transform: Composition,
) -> Iterator[tuple[Transform, int, str, tuple[Parameter, ...]]]:
    """Transforms that can be undone: with the first column of θ, the name and the parameters."""
    named, start = iter(transform.spaces.items()), 0
    for part in transform.transforms:
        for _ in part.spaces:
            name, space = next(named)
            if part.is_reversible and isinstance(space, Interval):
                yield part, start, name, space.parameters
            start += space.size
