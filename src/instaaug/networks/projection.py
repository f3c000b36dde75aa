"""An encoder with a projection head, as contrastive learning trains it."""

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError, ShapeError
from instaaug.networks.penultimate import PenultimateFeatures
from instaaug.shapes import Images

__all__ = ["ProjectedEncoder", "without_head"]


class ProjectedEncoder(nn.Module):
    """Features of an encoder, then two linear layers with BatchNorm and ReLU between.

    The loss compares projections; what one keeps are the features, for the projection throws away
    what two views of an image do not share.

    Arguments:
        encoder: From images to features ``(B, n_features)``.
        n_features: How many.
        hidden: Width between the two layers.
        n_projected: Length of a projection.

    Example:
        >>> encoder = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> model = ProjectedEncoder(encoder, n_features=8)
        >>> model(torch.rand(4, 3, 16, 16)).shape, model.encoder(torch.rand(4, 3, 16, 16)).shape
        (torch.Size([4, 128]), torch.Size([4, 8]))
    """

    def __init__(
        self, encoder: nn.Module, *, n_features: int, hidden: int = 1024, n_projected: int = 128
    ) -> None:
        super().__init__()
        counts = {"n_features": n_features, "hidden": hidden, "n_projected": n_projected}
        for name, count in counts.items():
            if count < 1:
                raise ArgumentError(f"`{name}` must be at least 1: got {count}.")
        self.encoder, self.n_features = encoder, n_features
        self.projection = nn.Sequential(
            nn.Linear(n_features, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, n_projected),
        )

    @override
    def forward(self, x: Images) -> Float[Tensor, "batch d"]:
        features = self.encoder(x)
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        if got != (len(x), self.n_features):
            raise ShapeError(
                f"`encoder` must return one vector per image, ({len(x)}, {self.n_features}): got "
                f"{got}. End it in pooling and nn.Flatten, and say `n_features` as it is."
            )
        return self.projection(features)


def without_head(model: nn.Module, image: Images) -> tuple[nn.Module, int]:
    """A classifier cut off before its last linear layer, and the number of its features.

    Arguments:
        model: Its logits come from a final ``nn.Linear``; it is changed.
        image: An input as it takes them, to find out whether they do.

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> encoder, n_features = without_head(SmallCNN(10, channels=2), torch.rand(1, 3, 32, 32))
        >>> n_features, encoder(torch.rand(4, 3, 32, 32)).shape
        (128, torch.Size([4, 128]))
    """
    features = PenultimateFeatures(model)
    n_features = features(image).shape[1]
    if features.head is model:
        return nn.Flatten(), n_features
    for part in model.modules():
        for name, child in part.named_children():
            if child is features.head:
                setattr(part, name, nn.Identity())
    return model, n_features
