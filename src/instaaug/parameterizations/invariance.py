"""The invariance module φ: an input goes in, a distribution over θ comes out."""

from collections.abc import Mapping, Sequence
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from instaaug.distributions import Joint
from instaaug.errors import ArgumentError
from instaaug.networks import FeatureNetwork, feature_channels
from instaaug.parameterizations.crop_grid import CropGrid
from instaaug.parameterizations.families import Family
from instaaug.parameterizations.heads import ClassHead, Head, LocationHead, PooledHead, SharedHead
from instaaug.shapes import Images, Maps

__all__ = ["Conditioning", "InvarianceModule"]

Conditioning = Literal["input", "none", "class"]
Classes = Int[Tensor, " batch"] | None


class InvarianceModule(nn.Module):
    """φ: feature network, a head and a family per factor.

    Arguments:
        families: The family of distributions of each factor of θ, by name.
        grids: The boxes of the factors that choose one, by name.
        start: Entropy in nats that each factor starts at, by name.
        network: Gives the feature maps; ignored unless ``conditioning="input"``.
        in_channels: Channels of the images.
        conditioning: What θ depends on: the input, nothing, or the class.
        num_classes: Number of classes, for ``conditioning="class"``.
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        grids: Mapping[str, CropGrid],
        *,
        start: Mapping[str, float],
        network: FeatureNetwork | None,
        in_channels: int = 3,
        conditioning: Conditioning = "input",
        num_classes: int | None = None,
    ) -> None:
        super().__init__()
        self.conditioning = conditioning
        self.names = tuple(families)
        self.network = network if conditioning == "input" else None
        channels: Sequence[int] = ()
        if self.network is not None:
            channels = feature_channels(self.network, in_channels=in_channels)
        self.channels = tuple(channels)
        self.grids = dict(grids)
        self.families = nn.ModuleList(families.values())
        self.heads = nn.ModuleList(
            self._make_head(name, family, family.raw_at(start[name]), num_classes)
            for name, family in families.items()
        )

    def _make_head(self, name: str, family: Family, bias: Tensor, num_classes: int | None) -> Head:
        if self.conditioning == "none":
            return SharedHead(bias)
        if self.conditioning == "class":
            if num_classes is None or num_classes < 1:
                raise ArgumentError(
                    '`num_classes` must be at least 1 with conditioning="class": got '
                    f"{num_classes}."
                )
            return ClassHead(bias, num_classes=num_classes, family=family)
        return self.make_input_head(name, bias)

    def make_input_head(self, name: str, bias: Float[Tensor, " n_raw"]) -> Head:
        """A head that reads the feature maps, of the form that suits factor ``name``."""
        if name in self.grids:
            return LocationHead(self.channels, self.grids[name], bias)
        return PooledHead(self.channels, bias)

    def features(self, x: Images) -> list[Maps]:
        """Feature maps of the inputs, finest first; none if φ does not look at them."""
        return [] if self.network is None else list(self.network(x))

    def decode(self, maps: Sequence[Maps], classes: Classes, batch: int) -> Joint:
        """The distributions that belong to feature maps or classes."""
        factors = {
            name: family(head(maps, classes, batch))
            for name, family, head in zip(self.names, self.families, self.heads, strict=True)
        }
        return Joint(factors)

    @override
    def forward(self, x: Images, classes: Classes = None) -> Joint:
        return self.decode(self.features(x), classes, len(x))
