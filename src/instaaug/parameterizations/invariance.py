"""φ: from an input to a distribution over transforms, and the heads that make its parameters."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.distributions import Joint
from instaaug.errors import ArgumentError
from instaaug.networks import FeatureNetwork, feature_channels
from instaaug.parameterizations.crop_grid import CropGrid, GridLevel
from instaaug.parameterizations.families import ClosedFormFamily, Family, UniformFamily
from instaaug.shapes import Images, Maps

__all__ = [
    "BoxScorer",
    "ClassHead",
    "Conditioning",
    "Head",
    "InvarianceModule",
    "LocationHead",
    "PooledHead",
    "SharedHead",
]

Bias = Float[Tensor, " n_raw"]
Raw = Float[Tensor, "batch n_raw"]
RawOfFactor = Float[Tensor, "batch _"]  # factors differ in how many numbers they have
Conditioning = Literal["input", "none", "class"]
Classes = Int[Tensor, " batch"] | None

POOLED_SIDE = 4
N_PLACES = 8  # per axis, where features are pooled over boxes
N_HIDDEN = 32
SMALL = 0.1  # weights of a head start a tenth of the usual size, so that its bias decides


class Head(nn.Module, ABC):
    """Gives a row of raw numbers per input."""

    @abstractmethod
    @override
    def forward(self, maps: Sequence[Maps], classes: Classes, batch: int) -> Raw:
        """Raw numbers for each input.

        Arguments:
            maps: Feature maps, finest first; empty if φ has no network.
            classes: Labels, which only a class head reads.
            batch: Number of inputs.
        """

    @property
    @abstractmethod
    def common(self) -> nn.Parameter:
        """What is added for every input alike."""


class PooledHead(Head):
    """A linear layer on a 4 × 4 summary of the coarsest map, which keeps track of place."""

    def __init__(self, channels: Sequence[int], bias: Bias) -> None:
        super().__init__()
        self.linear = nn.Linear(channels[-1] * POOLED_SIDE**2, len(bias))
        with torch.no_grad():
            self.linear.weight.mul_(SMALL)
            self.linear.bias.copy_(bias)

    @override
    def forward(self, maps: Sequence[Maps], classes: Classes, batch: int) -> Raw:
        summary = F.adaptive_avg_pool2d(F.relu(maps[-1]), POOLED_SIDE)
        return self.linear(summary.flatten(1))

    @property
    @override
    def common(self) -> nn.Parameter:
        return self.linear.bias


class LocationHead(Head):
    """The location-related parameterization: one logit per unit, from the map that has the unit.

    A 1 × 1 convolution on a level's map, plus a learned bias per place. Small boxes read fine
    maps, large boxes coarse ones; a level with a single box reads the summary of the coarsest.
    Maps are brought to the size of the level, so that any image size works. A level that names its
    layer is read from that map's units, one by one where the sizes agree.
    """

    def __init__(self, channels: Sequence[int], grid: CropGrid, bias: Bias) -> None:
        super().__init__()
        self.shapes = [level.shape for level in grid.levels]
        self.layers = _layers_of_levels(grid, len(channels))
        self.is_pooled = [_is_pooled(level) for level in grid.levels]
        self.bias = nn.Parameter(bias.clone())
        scorers: list[nn.Module] = []
        for is_pooled, layer in zip(self.is_pooled, self.layers, strict=True):
            scorer: nn.Module
            if is_pooled:
                scorer = nn.Linear(channels[-1] * POOLED_SIDE**2, 1, bias=False)
            else:
                scorer = nn.Conv2d(channels[layer], 1, 1, bias=False)
            with torch.no_grad():
                next(scorer.parameters()).mul_(SMALL)
            scorers.append(scorer)
        self.scorers = nn.ModuleList(scorers)

    @override
    def forward(self, maps: Sequence[Maps], classes: Classes, batch: int) -> Raw:
        logits = []
        for shape, is_pooled, layer, scorer in zip(
            self.shapes, self.is_pooled, self.layers, self.scorers, strict=True
        ):
            features = F.relu(maps[layer])
            if is_pooled:
                score = scorer(F.adaptive_avg_pool2d(features, POOLED_SIDE).flatten(1))
            else:
                score = _resize(scorer(features), shape)
            logits.append(score.flatten(1))
        return torch.cat(logits, dim=1) + self.bias

    @property
    @override
    def common(self) -> nn.Parameter:
        return self.bias


class BoxScorer(Head):
    r"""One small network scores every box by what lies in it, in the image, and by its size.

    .. math:: r_k = c_k + w \cdot \mathrm{ReLU}(U \bar f_k + W \bar f + e_{\text{size}(k)})

    with :math:`\bar f_k` the mean of the features over box k and :math:`\bar f` that over the
    image. Means over boxes are a product with a fixed matrix, boxes × places. As all boxes share
    U, W and w, what is learned from one is known of the others.
    """

    pooling: Tensor
    size_of: Tensor

    def __init__(self, channels: Sequence[int], grid: CropGrid, bias: Bias) -> None:
        super().__init__()
        self.register_buffer("pooling", box_means(grid.boxes, N_PLACES), persistent=False)
        counts = [rows * columns for rows, columns in (level.shape for level in grid.levels)]
        size_of = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        self.register_buffer("size_of", size_of, persistent=False)
        self.in_box = nn.Conv2d(sum(channels), N_HIDDEN, 1, bias=False)
        self.in_image = nn.Linear(sum(channels), N_HIDDEN)
        self.size = nn.Embedding(len(counts), N_HIDDEN)
        self.score = nn.Linear(N_HIDDEN, 1, bias=False)
        self.bias = nn.Parameter(bias.clone())
        nn.init.zeros_(self.score.weight)  # all inputs start alike

    @override
    def forward(self, maps: Sequence[Maps], classes: Classes, batch: int) -> Raw:
        shape = (N_PLACES, N_PLACES)
        features = torch.cat([_resize(F.relu(m), shape) for m in maps], dim=1)
        places = self.in_box(features).flatten(
            2
        )  # pooling is linear, too, and needs less this way
        boxes = self.pooling.to(places.dtype) @ places.transpose(1, 2)
        image = self.in_image(features.mean(dim=(2, 3)))
        hidden = boxes + image[:, None] + self.size(self.size_of)
        return self.score(F.relu(hidden)).squeeze(-1) + self.bias

    @property
    @override
    def common(self) -> nn.Parameter:
        return self.bias


def box_means(boxes: Float[Tensor, "k 4"], n_places: int) -> Float[Tensor, "k places"]:
    """The matrix that averages an n × n map over boxes: shares of the cells, row by row.

    What lies outside of the image does not count; a box that is wholly outside has zeros.

    Example:
        >>> box_means(torch.tensor([[-0.5, 0.0, 1.0, 2.0]]), 2)  # the left half
        tensor([[0.5000, 0.0000, 0.5000, 0.0000]])
    """
    edges = torch.linspace(-1, 1, n_places + 1)
    starts, ends = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    overlap = torch.minimum(ends[..., None], edges[1:]) - torch.maximum(
        starts[..., None], edges[:-1]
    )
    across, down = overlap.clamp(min=0).unbind(1)
    area = (down[:, :, None] * across[:, None, :]).flatten(1)
    return area / area.sum(dim=1, keepdim=True).clamp(min=1e-6)


class SharedHead(Head):
    """One learned vector for all inputs: the ablation "without input"; as in Augerino."""

    def __init__(self, bias: Bias) -> None:
        super().__init__()
        self.raw = nn.Parameter(bias.clone())

    @override
    def forward(self, maps: Sequence[Maps], classes: Classes, batch: int) -> Raw:
        return self.raw.expand(batch, -1)

    @property
    @override
    def common(self) -> nn.Parameter:
        return self.raw


class ClassHead(Head):
    """A learned vector per class: the ablation "class-specific".

    In evaluation the class is unknown: the family decides what to draw without it
    (:meth:`Family.without_class <instaaug.parameterizations.Family.without_class>`).
    """

    def __init__(self, bias: Bias, *, num_classes: int) -> None:
        super().__init__()
        self.raw = nn.Parameter(bias.repeat(num_classes, 1))

    @override
    def forward(self, maps: Sequence[Maps], classes: Classes, batch: int) -> Raw:
        if classes is None:
            raise ArgumentError(
                '`targets` must be given in training with conditioning="class": got None. '
                "Call aug(x, targets=y), or aug.eval() first to predict."
            )
        return self.raw[classes]

    @property
    @override
    def common(self) -> nn.Parameter:
        return self.raw


def _layers_of_levels(grid: CropGrid, n_maps: int) -> list[int]:
    """Large boxes read the coarsest map, and each smaller size the next finer one."""
    several = [i for i, level in enumerate(grid.levels) if not _is_pooled(level)]
    by_size = sorted(several, key=lambda i: -grid.levels[i].width)
    layers = [n_maps - 1] * len(grid.levels)
    for rank, i in enumerate(by_size):
        declared = grid.levels[i].layer
        layers[i] = max(n_maps - 1 - rank, 0) if declared is None else declared
    if max(layers) >= n_maps:
        raise ArgumentError(
            f"`grid` must belong to the network: it reads map {max(layers)}, but the network "
            f"returns {n_maps} maps, numbered from 0. Build the grid from this network."
        )
    return layers


def _is_pooled(level: GridLevel) -> bool:
    """Whether the level's only box is no unit of a map."""
    return level.shape == (1, 1) and level.layer is None


def _resize(score: Maps, shape: tuple[int, int]) -> Maps:
    """``score`` averaged along an axis that it has too much of, interpolated along the other."""
    own = (score.shape[-2], score.shape[-1])
    smaller = (min(own[0], shape[0]), min(own[1], shape[1]))
    if smaller != own:
        score = F.adaptive_avg_pool2d(score, smaller)
    if smaller == shape:
        return score
    return F.interpolate(score, shape, mode="bilinear", align_corners=False)


class InvarianceModule(nn.Module):
    r"""φ: feature network, a head and a family per factor.

    At test time φ may depend on its input less than it has learned to:

    .. math:: r(x) = \bar r + \alpha\,(\phi(x) - \bar r), \qquad 0 \le \alpha \le 1,

    with raw numbers :math:`\bar r` that all inputs share (:meth:`set_shared`) and the dependence
    α, which is 1 until :meth:`set_dependence` changes it. At 0 all inputs get one distribution.

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
        if conditioning == "input":
            self.n_raw = [family.n_raw for family in families.values()]
            self.register_buffer("shared", torch.zeros(sum(self.n_raw)))
            self.register_buffer("dependence", torch.ones(()))
        self.heads = nn.ModuleList(
            self._make_head(name, family, family.raw_at(start[name]), num_classes)
            for name, family in families.items()
        )

    shared: Tensor
    dependence: Tensor

    def _make_head(self, name: str, family: Family, bias: Tensor, num_classes: int | None) -> Head:
        if self.conditioning == "none":
            return SharedHead(bias)
        if self.conditioning == "class":
            if num_classes is None or num_classes < 1:
                raise ArgumentError(
                    '`num_classes` must be at least 1 with conditioning="class": got '
                    f"{num_classes}."
                )
            return ClassHead(bias, num_classes=num_classes)
        if isinstance(family, ClosedFormFamily) and name in self.grids:
            return BoxScorer(self.channels, self.grids[name], bias)
        return self.make_input_head(name, bias)

    def make_input_head(self, name: str, bias: Float[Tensor, " n_raw"]) -> Head:
        """A head that reads the feature maps, of the form that suits factor ``name``."""
        if name in self.grids:
            return LocationHead(self.channels, self.grids[name], bias)
        return PooledHead(self.channels, bias)

    def input_parameters(self) -> list[nn.Parameter]:
        """What makes distributions depend on the input: all but what heads add for all alike."""
        common = {id(head.common) for head in self.heads if isinstance(head, Head)}
        return [p for p in self.parameters() if id(p) not in common]

    def features(self, x: Images) -> list[Maps]:
        """Feature maps of the inputs, finest first; none if φ does not read the inputs.

        The network reads them in its own precision, whatever theirs is.
        """
        if self.network is None:
            return []
        return list(
            self.network(x.to(next((p.dtype for p in self.network.parameters()), x.dtype)))
        )

    def decode(
        self,
        maps: Sequence[Maps],
        classes: Classes,
        batch: int,
        *,
        predicted: dict[str, Raw] | None = None,
        shrunk: bool = False,
        shift: Mapping[str, RawOfFactor] | None = None,
    ) -> Joint:
        """The distributions that belong to feature maps or classes.

        Arguments:
            maps: What :meth:`features` returned.
            classes: Labels, if φ learns per class.
            batch: Number of inputs.
            predicted: Receives, with gradient, the losses that factors in closed form predict
                for their choices; λ of these factors is solved for the batch.
            shrunk: Whether they depend on the input only as much as :attr:`dependence` says.
            shift: Of factors by name, how far from doing nothing the ranges of each input lie.
        """
        if classes is None and not self.training and self.conditioning == "class":
            tables = (head.raw for head in self.heads if isinstance(head, ClassHead))
            pairs = zip(self._families(), tables, strict=True)
            factors = [family.without_class(table, batch) for family, table in pairs]
            return Joint(dict(zip(self.names, factors, strict=True)))
        found = {}
        rows = self.raw(maps, classes, batch, shrunk=shrunk)
        for name, family, raw in zip(self.names, self._families(), rows, strict=True):
            if isinstance(family, UniformFamily) and shift is not None and name in shift:
                found[name] = family(raw, shift[name])
                continue
            if predicted is None or not isinstance(family, ClosedFormFamily):
                found[name] = family(raw)
                continue
            found[name] = family(raw, family.solve(raw.detach()))
            predicted[name] = family.centered(raw)
        return Joint(found)

    def raw(
        self, maps: Sequence[Maps], classes: Classes, batch: int, *, shrunk: bool = False
    ) -> list[RawOfFactor]:
        """The raw numbers of each factor; arguments as those of :meth:`decode`."""
        raw = [head(maps, classes, batch) for head in self.heads]
        if not shrunk or self.conditioning != "input":
            return raw
        pairs = zip(self.shared.split(self.n_raw), raw, strict=True)
        return [torch.lerp(one.to(own), own, self.dependence.to(own)) for one, own in pairs]

    def _families(self) -> Iterator[Family]:
        for family in self.families:
            assert isinstance(family, Family)  # noqa: S101  # nn.ModuleList is untyped
            yield family

    def set_shared(self, raw: Sequence[RawOfFactor]) -> None:
        """Share the average over some inputs.

        Arguments:
            raw: Of each factor, the raw numbers of these inputs.
        """
        pairs = zip(self._families(), raw, strict=True)
        average = [family.average_raw(rows.detach().float()) for family, rows in pairs]
        self.shared.copy_(torch.cat(average))

    def set_dependence(self, dependence: float) -> None:
        """Change how much the distribution depends on the input at test time, from 0 to 1."""
        if not 0 <= dependence <= 1:
            raise ArgumentError(
                f"`dependence` must lie in [0, 1]: got {dependence}. 0 gives all inputs the same "
                "distribution, 1 is as learned."
            )
        if self.conditioning != "input":
            raise ArgumentError(
                '`dependence` needs conditioning="input": got '
                f'"{self.conditioning}", which does not read the input.'
            )
        self.dependence.fill_(dependence)

    @override
    def forward(
        self,
        x: Images,
        classes: Classes = None,
        *,
        shrunk: bool = False,
        shift: Mapping[str, RawOfFactor] | None = None,
    ) -> Joint:
        return self.decode(self.features(x), classes, len(x), shrunk=shrunk, shift=shift)
