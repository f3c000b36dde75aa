"""Learned loss: a network predicts which of twelve fixed changes suits an input."""

from collections.abc import Iterable, Sequence
from math import isfinite, radians
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation import TestTimeAugmentation
from instaaug.augmentation.at_test_time import Merge
from instaaug.augmentation.settings import as_composition
from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.loss_predictor import LossPredictor, RankTraining, shrunk
from instaaug.methods.operations import Operations, number_of
from instaaug.methods.simple import SimpleAugmenter
from instaaug.shapes import Images, Maps, Rendered, Rows, check_finite, check_images

__all__ = ["CANDIDATES", "LearnedLoss"]

CANDIDATES: tuple[tuple[str, float], ...] = (
    ("identity", 0.0),
    ("rotate", radians(-20)),
    ("rotate", radians(20)),
    ("zoom", 0.8 - 1),
    ("zoom", 1.2 - 1),
    ("auto_contrast", 0.0),
    ("sharpness", 0.2 - 1),
    ("sharpness", 0.5 - 1),
    ("sharpness", 3.0 - 1),
    ("sharpness", 4.0 - 1),
    ("color", 0.5 - 1),
    ("color", 2.0 - 1),
)
"""Operations and their values, as in :class:`~instaaug.methods.operations.Operations`."""

MIRROR = (0, 2, 1, *range(3, len(CANDIDATES)))
"""What a candidate is in the mirror: the two rotations change places."""


class LearnedLoss(SimpleAugmenter):
    r"""Shows the model the candidates on which its loss is predicted to be smallest.

    A predictor reads the input once and scores twelve candidates: the input itself, turned by
    ∓20°, zoomed by 0.8 and 1.2, with full contrast, with sharpness 0.2, 0.5, 3 and 4, with
    saturation 0.5 and 2. Its scores, a softmax, are averaged over the input and its mirror image,
    for which the two rotations change places. ``draw`` takes the n highest scores, and starts
    again at the highest beyond twelve; ``select`` and the generator have no say. A candidate whose
    score is below ``threshold`` times that of the unchanged input gives its place to the latter.
    :meth:`wrap` averages probabilities.

    :meth:`fit` trains the predictor on a table of losses; nothing else does. It departs from the
    source as follows.

    - The predictor is small, 78 thousand parameters instead of EfficientNet-B0's millions: see
      :class:`~instaaug.methods.loss_predictor.LossPredictor`.
    - Soft ranks, sums of sigmoids of differences, take the place of a pre-trained sorting network
      (SoDeep), whose weights are not free. The source ranks softmin(loss/τ); τ cannot change that.
    - A mirrored image is trained with the losses of the image itself, rotations exchanged; the
      source runs the classifier on both. Corruptions are left to whoever makes the table.
    - Scores are averaged over the image and its left-right mirror image; the source's code mirrors
      top and bottom.
    - Warps are bilinear; the source's are bicubic. As there, the image goes on mirrored outside.

    Arguments:
        threshold: What a candidate's score must reach, in shares of the unchanged input's. With 1
            only candidates that promise to be better than the input take its place, which is what
            the source's code does with every threshold up to 1; with 0 the n views are distinct.
        in_channels: Channels of the images.
        width: Multiplies the channels of the predictor's trunk.
        mean: Per-channel mean the images were normalized with; colors are changed without.
        std: Per-channel standard deviation, likewise.
        padding_mode: What lies outside of the image.
        size: Side, or height and width, of what the model sees, to which inputs are resized first;
            the input's own by default.

    References:
        | Learning Loss for Test-Time Augmentation (Kim et al., 2020)
        | https://arxiv.org/abs/2010.11422

    Example:
        >>> aug = LearnedLoss(threshold=0.0)
        >>> x, losses = torch.rand(2, 3, 64, 64), torch.rand(2, 12)
        >>> history = aug.fit(x, losses, epochs=1)
        >>> aug.draw(x, n_samples=4).shape
        torch.Size([4, 2, 2])
    """

    table: Tensor

    def __init__(
        self,
        *,
        threshold: float = 1.0,
        in_channels: int = 3,
        width: float = 2.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "reflection",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        if not (isfinite(threshold) and threshold >= 0):
            raise ArgumentError(
                f"`threshold` must be a number of at least 0: got {threshold}. 0 replaces no "
                "candidate."
            )
        self.threshold, self.in_channels = threshold, in_channels
        self.transform = as_composition(Operations(1), mean=mean, std=std, size=size)
        self.padding_mode: PaddingMode = padding_mode
        self.predictor = LossPredictor(len(CANDIDATES), in_channels=in_channels, width=width)
        rows = [(float(number_of(name)), value) for name, value in CANDIDATES]
        self.register_buffer("table", torch.tensor(rows), persistent=False)

    def scores(self, x: Images) -> Float[Tensor, "batch candidates"]:
        """How well each candidate is predicted to do; a row sums to 1."""
        small = self._as_seen(x)
        with torch.no_grad():
            straight, mirrored = self.predictor(torch.cat([small, small.flip(-1)])).chunk(2)
        return (straight.softmax(dim=-1) + mirrored[:, MIRROR].softmax(dim=-1)) / 2

    def candidate_theta(self, x: Images) -> Float[Tensor, "candidates batch 2"]:
        """θ of all candidates of each input, for a table of losses."""
        return self.table[:, None].expand(-1, len(x), -1)

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return self.table[_chosen(self.scores(x), n_samples, self.threshold)].transpose(0, 1)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.padding_mode)

    @override
    def wrap(
        self, model: nn.Module, n_samples: int = 4, *, merge: Merge = "probability", **options: Any
    ) -> TestTimeAugmentation:
        """As of any augmenter, but probabilities are averaged, as in the source."""
        return super().wrap(model, n_samples, merge=merge, **options)

    def fit(
        self,
        x: Tensor | Iterable[Tensor],
        losses: Tensor,
        *,
        epochs: int = 60,
        batch_size: int = 128,
        learning_rate: float = 0.01,
        generator: Generator | None = None,
    ) -> list[float]:
        """Train the predictor on the losses of a frozen classifier.

        Arguments:
            x: All images, or batches of them; only their 64 × 64 pixels are kept.
            losses: ``(N, 12)``: of every image, in their order, and of every candidate, in the
                order of :meth:`candidate_theta`.
            epochs: Passes over the table.
            batch_size: Images per step.
            learning_rate: Of RMSprop at the start; it falls along a cosine.
            generator: Source of randomness, on the processor; a seeded one makes the fit
                repeatable.

        Returns:
            The mean training loss of every epoch.
        """
        if min(epochs, batch_size) < 1 or not learning_rate > 0:
            raise ArgumentError(
                "`epochs` and `batch_size` must be at least 1, `learning_rate` above 0: got "
                f"{epochs}, {batch_size} and {learning_rate}."
            )
        batches = [x] if isinstance(x, Tensor) else x
        images = torch.cat([self._as_seen(batch) for batch in batches]).to(self.table.device)
        table = _checked_table(losses, len(images)).to(images)
        training = RankTraining(
            self.predictor,
            MIRROR,
            learning_rate=learning_rate,
            n_steps=epochs * -(-len(images) // batch_size),
            generator=generator,
        )
        history = [training.epoch(images, table, batch_size) for _ in range(epochs)]
        training.finish()
        return history

    def _as_seen(self, x: Images) -> Maps:
        check_images(x, channels=self.in_channels)
        return shrunk(x.detach().to(self.predictor.linear.weight.dtype))

    @override
    def extra_repr(self) -> str:
        return f"{len(CANDIDATES)} candidates, threshold {self.threshold:g}"


def _chosen(scores: Rows, n: int, threshold: float) -> Tensor:
    """Numbers of the n best candidates per row, the first of which is the unchanged input."""
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    order = torch.where(ordered < threshold * scores[:, :1], 0, order)
    return order[:, torch.arange(n, device=scores.device) % scores.shape[1]]


def _checked_table(losses: Tensor, n_images: int) -> Rows:
    expected = (n_images, len(CANDIDATES))
    if tuple(losses.shape) != expected:
        raise ShapeError(
            f"`losses` must be {expected}, a row per image and a column per candidate: got "
            f"{tuple(losses.shape)}. Render candidate_theta and keep the losses of each input."
        )
    check_finite(losses, name="losses", advice="Look for the image that causes it.")
    return losses.detach()
