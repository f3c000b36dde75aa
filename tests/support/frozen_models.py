"""Small models of many architectures, and whether one of them was touched."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

__all__ = ["ARCHITECTURES", "Counting", "Snapshot", "built"]

N_CLASSES = 5
WIDTH = 10
Model = Callable[[], nn.Module]


def stem(width: int = WIDTH, channels: int = 3) -> nn.Sequential:
    """32 pixels become 8."""
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, width, 3, stride=2, padding=1),
        nn.BatchNorm2d(width),
    )


class Pooled(nn.Module):
    """A ResNet in small: a residual block, global average pooling, dropout, a linear layer."""

    def __init__(self, channels: int = 3, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.stem = stem(channels=channels)
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.activation = activation
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(WIDTH, N_CLASSES)

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.activation(self.norm(x + self.conv(x.relu())))
        result: Tensor = self.head(self.dropout(x.mean(dim=(2, 3))))
        return result


class OneReLU(nn.Module):
    """Calls one and the same ReLU after every layer, the pooled ones among them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, WIDTH, 3, 2, 1)
        self.relu = nn.ReLU()
        self.head = nn.Linear(WIDTH, N_CLASSES)

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.second(self.relu(self.first(x))))
        result: Tensor = self.head(self.relu(x.mean(dim=(2, 3))))
        return result


class Attention(nn.Module):
    """A transformer block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 16), nn.GELU())
        self.back = nn.Linear(16, width)

    @override
    def forward(self, x: Tensor) -> Tensor:
        normed = self.before(x)
        x = x + self.attention(normed, normed, normed)[0]
        result: Tensor = x + self.back(self.mlp(x))
        return result


class Transformer(nn.Module):
    """A ViT in small; without a class token its tokens are averaged."""

    def __init__(self, *, class_token: bool, patch: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH)) if class_token else None
        self.blocks = nn.Sequential(Attention(WIDTH), Attention(WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, N_CLASSES)

    @override
    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], dim=1)
        tokens = self.norm(self.blocks(tokens))
        pooled = tokens.mean(dim=1) if self.token is None else tokens[:, 0]
        result: Tensor = self.head(pooled)
        return result


class ChannelsLast(nn.Module):
    """A Swin in small: the last map is (B, h, w, C)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = stem(), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, N_CLASSES)

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x).permute(0, 2, 3, 1))
        result: Tensor = self.head(x.mean(dim=(1, 2)))
        return result


class Scaled(nn.Module):
    """Three channels come out: one might take them for three classes."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return (x - 0.5) / 0.25


class Returning(nn.Module):
    """A model that returns its logits as part of something else."""

    def __init__(self, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.model, self.wrap = Pooled(), wrap

    @override
    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.model(x))


def class_map() -> nn.Module:
    """A SqueezeNet in small: the classes are channels before they are averaged."""
    last = [nn.Conv2d(WIDTH, N_CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(stem(), nn.ReLU(), *last)


def convolved() -> nn.Module:
    """The last layer is a 1 × 1 convolution of what was pooled."""
    last = [nn.AdaptiveAvgPool2d(1), nn.Conv2d(WIDTH, N_CLASSES, 1), nn.Flatten()]
    return nn.Sequential(stem(), nn.ReLU(), *last)


class TwoHeads(nn.Module):
    """A distilled model: the mean of two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(stem(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.one, self.other = nn.Linear(WIDTH, N_CLASSES), nn.Linear(WIDTH, N_CLASSES)

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        result: Tensor = (self.one(x) + self.other(x)) / 2
        return result


def hidden(width: int, num_classes: int = N_CLASSES) -> nn.Module:
    """A MobileNetV3 in small: another linear layer between the map and the classes."""
    last = [nn.Linear(WIDTH, width), nn.Hardswish(), nn.Linear(width, num_classes)]
    return nn.Sequential(stem(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *last)


def flat(num_classes: int = N_CLASSES) -> nn.Module:
    """A VGG in small: the map is flattened, not pooled."""
    last = [nn.Linear(WIDTH * 64, 20), nn.ReLU(), nn.Dropout(), nn.Linear(20, num_classes)]
    return nn.Sequential(Scaled(), stem(), nn.ReLU(), nn.Flatten(), *last)


ARCHITECTURES: dict[str, tuple[Model, str]] = {
    "functional ReLU": (Pooled, "class evidence at 'norm' after ReLU, 8×8"),
    "in-place ReLU": (lambda: Pooled(activation=F.relu_), "class evidence at 'norm', 8×8"),
    "module ReLU": (lambda: Pooled(activation=nn.ReLU()), "class evidence at 'activation', 8×8"),
    "in-place module": (
        lambda: Pooled(activation=nn.ReLU(inplace=True)),
        "class evidence at 'activation', 8×8",
    ),
    "no activation": (
        lambda: Pooled(activation=nn.Identity()),
        "class evidence at 'activation', 8×8",
    ),
    "one ReLU for all": (OneReLU, "class evidence at 'relu', 8×8"),
    "class map": (class_map, "class evidence at '3', 8×8"),
    "convolution last": (convolved, "class evidence at '1', 8×8"),
    "two heads": (TwoHeads, "class evidence at 'stem.1', 8×8"),
    "hidden layer": (lambda: hidden(20), "10 channels at '0', 8×8"),
    "hidden layer as wide as the map": (lambda: hidden(WIDTH), "10 channels at '0', 8×8"),
    "flattened": (flat, "10 channels at '2', 8×8"),
    "as many classes as colors": (lambda: flat(3), "10 channels at '2', 8×8"),
    "class token": (lambda: Transformer(class_token=True), "class evidence at 'norm', 4×4"),
    "no class token": (lambda: Transformer(class_token=False), "class evidence at 'norm', 4×4"),
    "channels last": (ChannelsLast, "class evidence at 'norm', 8×8"),
    "dict": (
        lambda: Returning(lambda z: {"loss": None, "logits": z}),
        "class evidence at 'model.norm' after ReLU, 8×8",
    ),
    "tuple": (
        lambda: Returning(lambda z: (z, z.mean())),
        "class evidence at 'model.norm' after ReLU, 8×8",
    ),
    "one number": (
        lambda: nn.Sequential(hidden(20, 1), nn.Flatten(0)),
        "10 channels at '0.0', 8×8",
    ),
}


def built(name: str, *, seed: int = 0) -> nn.Module:
    """A model of that architecture, in evaluation mode; BatchNorm has seen something."""
    return copy.deepcopy(_built(name, seed))


@cache
def _built(name: str, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ARCHITECTURES[name][0]()
        for _ in range(3):
            model.train()(torch.rand(8, 3, 32, 32))
        return model.eval()


class Counting(nn.Module):
    """Counts the images that a model has seen, and notes the largest batch."""

    def __init__(self, model: nn.Module | None = None) -> None:
        super().__init__()
        self.model = model or built("functional ReLU")
        self.n_seen = self.largest = 0

    @override
    def forward(self, x: Tensor) -> Any:
        self.n_seen += len(x)
        self.largest = max(self.largest, len(x))
        return self.model(x)


class Snapshot:
    """All of a model that a guest could leave in disorder."""

    def __init__(self, model: nn.Module) -> None:
        self.state = {
            name: (value.dtype, value.data_ptr(), value.numpy().tobytes())
            for name, value in model.state_dict().items()
        }
        self.parts = {name: part.training for name, part in model.named_modules()}
        self.learned = {name: p.requires_grad for name, p in model.named_parameters()}
        self.gradients = {name: p.grad for name, p in model.named_parameters()}
        self.hooks = {
            f"{name}.{kind}": len(hooks)
            for name, part in model.named_modules()
            for kind, hooks in vars(part).items()
            if kind.endswith("_hooks")
        }

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
