"""Feature maps for φ from the model that is being trained."""

from contextlib import ExitStack

import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks.feature_networks import downsample, group_norm
from instaaug.networks.model_interface import evaluation_mode, run_eagerly, unwrap_compiled
from instaaug.shapes import Images, Maps

__all__ = ["ModelMaps"]

N_MAPS = 2
LEAST_SIDE = 4  # of a map, for an image of TRIED_SIDE
TRIED_SIDE = 32
LEAST_INPUT = 16


class ModelMaps(nn.Module):
    """What the model itself sees in an image of half the size, without gradient.

    Of the model's maps, the last of each of two sizes are read: the coarsest that have 4 × 4
    places or more for an image of 32 pixels, and the next finer ones. A fixed random projection
    brings them to the same number of channels whatever the model; normalization and a 1 × 1
    convolution on top are learned. The pass costs a quarter of a forward pass.

    The model is borrowed, not owned: it is not among the parameters, and is not saved.

    Arguments:
        in_channels: Channels of the images.
        width: Multiplies the channels of the maps, 32.

    Example:
        >>> from instaaug.networks import PreActResNet18
        >>> maps = ModelMaps(3)
        >>> maps.attach(PreActResNet18(10, width=0.125))
        >>> [tuple(m.shape[1:]) for m in maps(torch.rand(2, 3, 64, 64))]
        [(32, 8, 8), (32, 4, 4)]
    """

    def __init__(self, in_channels: int, *, width: float = 1.0) -> None:
        super().__init__()
        channels = max(1, round(32 * width))
        self.in_channels, self.out_channels = in_channels, (channels,) * N_MAPS
        self.mixes = nn.ModuleList(
            nn.Sequential(group_norm(channels), nn.Conv2d(channels, channels, 1))
            for _ in range(N_MAPS)
        )
        self._model: tuple[nn.Module, ...] = ()  # a tuple, or it would become part of this module
        self._places: tuple[str, ...] = ()

    def attach(self, model: nn.Module) -> None:
        """Read the maps of ``model`` from now on."""
        inner = unwrap_compiled(model)
        like = next(inner.parameters(), torch.zeros(1))
        x = like.new_zeros(1, self.in_channels, TRIED_SIDE, TRIED_SIDE)
        by_side: dict[int, str] = {}

        def note(name: str, output: object) -> None:
            if isinstance(output, Tensor) and output.ndim == 4 and output.shape[-1] >= LEAST_SIDE:
                by_side[output.shape[-1]] = name

        with ExitStack() as stack:
            for name, module in inner.named_modules():
                hook = module.register_forward_hook(lambda *seen, name=name: note(name, seen[2]))
                stack.callback(hook.remove)
            _run(inner, x)
        if len(by_side) < N_MAPS:
            raise ArgumentError(
                '`network="model"` needs a model with feature maps of several sizes: got '
                f"{len(by_side)} of 4 × 4 places or more for an image of {TRIED_SIDE} pixels. "
                'Choose "glance".'
            )
        coarsest_first = [by_side[side] for side in sorted(by_side)]
        self._model, self._places = (inner,), tuple(reversed(coarsest_first[:N_MAPS]))

    @override
    def forward(self, x: Images) -> list[Maps]:
        if not self._model:
            raise ArgumentError(
                '`network="model"` reads the maps of a model, and there is none. Call '
                "aug.attach(model) first."
            )
        found = self._maps(downsample(x, max(min(x.shape[-2:]) // 2, LEAST_INPUT)))
        mixed = zip(self.mixes, found, range(N_MAPS), strict=True)
        return [mix(self._project(m, i)) for mix, m, i in mixed]

    def _maps(self, x: Images) -> list[Maps]:
        (model,), outputs = self._model, dict[str, Tensor]()
        with ExitStack() as stack:
            for place in self._places:
                module = model.get_submodule(place)
                hook = module.register_forward_hook(
                    lambda *seen, place=place: outputs.__setitem__(place, seen[2])
                )
                stack.callback(hook.remove)
            _run(model, x)
        return [outputs[place].detach().float().contiguous() for place in self._places]

    def _project(self, maps: Maps, number: int) -> Maps:
        """The maps with fewer or more channels; always by the same directions."""
        name, shape = f"directions_{number}", (self.out_channels[number], maps.shape[1])
        directions = getattr(self, name, None)
        if directions is None or directions.shape[:2] != shape:
            generator = torch.Generator().manual_seed(number)
            directions = torch.randn(*shape, 1, 1, generator=generator) / shape[1] ** 0.5
            self.register_buffer(name, directions.to(maps), persistent=False)
        return nn.functional.conv2d(maps, getattr(self, name))


def _run(model: nn.Module, x: Images) -> None:
    with run_eagerly(model), evaluation_mode(model), torch.no_grad():
        model(x)
