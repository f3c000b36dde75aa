"""A static policy: the views that φ prefers on average, for pipelines that cannot run φ."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, prod
from pathlib import Path
from typing import Any, get_args

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation import InstaAug
from instaaug.augmentation.settings import as_composition
from instaaug.augmentation.views import Select, Views
from instaaug.distributions import CategoricalTheta, Joint, enumerate_choices
from instaaug.errors import ArgumentError, DataError, InstaAugError, UnknownNameError
from instaaug.files import write_text
from instaaug.functional.probability import gumbel_top_k
from instaaug.functional.warp import PaddingMode
from instaaug.methods.simple import SimpleAugmenter
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import Output, evaluation_mode
from instaaug.parameterizations import CategoricalFamily
from instaaug.shapes import Images, Rendered
from instaaug.transforms import Composition, from_config

__all__ = ["StaticAugmenter", "StaticPolicy", "average_policy"]

FORMAT = "instaaug-policy/1"
MOST_ROWS = 100_000  # of a table, before the best are chosen
MOST_VIEWS = 10_000
MOST_BYTES = 16 * 2**20
MOST_PIXELS = 2**28  # of a view; a file must not ask for more memory than there is
ROUNDING = 1e-6

Batch = Tensor | Sequence[Any]
Row = tuple[float, ...]


@dataclass(frozen=True)
class StaticPolicy:
    """The same few views for every input: rows of θ, most probable first.

    Arguments:
        theta: A row per view, with the columns of the transform.
        probabilities: Mean probability of each row over the data, in falling order.
        transform: What the rows are parameters of.
        padding_mode: What lies outside of the image.

    Example:
        >>> from instaaug.transforms import Composition, Flip
        >>> policy = StaticPolicy(((1.0, 1.0), (-1.0, 1.0)), (0.7, 0.3), Composition((Flip(),)))
        >>> policy.n
        2
        >>> policy.as_augmenter().draw(torch.rand(1, 3, 8, 8), 2, select="top").flatten(1)
        tensor([[ 1.,  1.],
                [-1.,  1.]])
    """

    theta: tuple[Row, ...]
    probabilities: Row
    transform: Composition
    padding_mode: PaddingMode = "zeros"

    def __post_init__(self) -> None:
        _check_rows(self.theta, self.transform)
        _check_probabilities(self.probabilities, len(self.theta))
        if self.padding_mode not in get_args(PaddingMode):
            raise ArgumentError(
                f"`padding_mode` must be one of {', '.join(get_args(PaddingMode))}: got "
                f"{self.padding_mode!r}."
            )

    @property
    def n(self) -> int:
        """Number of views."""
        return len(self.theta)

    def as_augmenter(self) -> "StaticAugmenter":
        """An augmenter that draws these views; ``wrap`` it around any model."""
        return StaticAugmenter(self)

    def save(self, path: str | Path) -> None:
        """Write the policy as JSON, at once or not at all."""
        config = {
            "format": FORMAT,
            "columns": self.transform.columns,
            "theta": self.theta,
            "probabilities": self.probabilities,
            "transform": self.transform.to_config(),
            "padding_mode": self.padding_mode,
        }
        write_text(Path(path), json.dumps(config, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "StaticPolicy":
        """Read what :meth:`save` wrote; nothing in the file is executed.

        Raises:
            DataError: If the file is no policy, or one of an unreasonable size.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"There is no policy file {str(path)!r}.")
        if (n_bytes := path.stat().st_size) > MOST_BYTES:
            raise DataError(
                f"{str(path)!r} is too large for a policy: {n_bytes:,} bytes of at most "
                f"{MOST_BYTES:,}."
            )
        try:
            return _from_config(json.loads(path.read_bytes()))
        except (InstaAugError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise DataError(f"{str(path)!r} is no policy: {error}") from error
        except (RecursionError, ArithmeticError) as error:
            raise DataError(f"{str(path)!r} is no policy: {type(error).__name__}.") from error


class StaticAugmenter(SimpleAugmenter):
    """Draws the rows of a :class:`StaticPolicy`; their probabilities are the weights of the views.

    ``select="top"``, the default at test time, gives the first rows, in order, and starts again at
    the first beyond the last. ``select="sample"`` draws rows by their probability without
    replacement, in as many rounds as it takes.

    Arguments:
        policy: The rows and their probabilities.
    """

    select: Select = "top"

    def __init__(self, policy: StaticPolicy) -> None:
        super().__init__()
        self.policy = policy
        self.transform = policy.transform
        self.register_buffer("theta", torch.tensor(policy.theta), persistent=False)
        probabilities = torch.tensor(policy.probabilities)
        self.register_buffer("probabilities", probabilities, persistent=False)

    theta: Tensor
    probabilities: Tensor

    @override
    def draw(
        self, x: Images, n_samples: int, *, select: str = "sample", replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:  # fmt: skip
        rows = self._rows(x, n_samples, select=select, replace=replace, generator=generator)
        return self.theta.to(x.device)[rows]

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return self.draw(x, n_samples, replace=True, generator=generator)

    @override
    def views(
        self, x: Images, n_samples: int, *, model: nn.Module | None = None,
        output: Output | None = None, chunk_size: int | None = None, select: Select = "sample",
        replace: bool = False, generator: Generator | None = None,
    ) -> Views:  # fmt: skip
        rows = self._rows(x, n_samples, select=select, replace=replace, generator=generator)
        return Views(self.theta.to(x.device)[rows], self.probabilities.to(x.device)[rows])

    def _rows(
        self, x: Images, n_samples: int, *, select: str, replace: bool,
        generator: Generator | None,
    ) -> Int[Tensor, "n batch"]:  # fmt: skip
        if select not in get_args(Select):
            raise UnknownNameError("selection", select, get_args(Select))
        n = self.policy.n
        if select == "top":
            order = torch.arange(n_samples, device=x.device) % n
            return order[:, None].expand(-1, len(x))
        probs = self.probabilities.to(x.device).repeat(len(x), 1)
        if replace:
            return torch.multinomial(probs, n_samples, replacement=True, generator=generator).T
        left = range(n_samples, 0, -n)  # views that are still to be drawn, at each round
        rounds = [gumbel_top_k(probs.log(), min(n, m), generator=generator) for m in left]
        return torch.cat(rounds)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.policy.padding_mode)

    @override
    def extra_repr(self) -> str:
        share = sum(self.policy.probabilities)
        names = ", ".join(self.transform.names)
        return f"{names}: {self.policy.n} views with {share:.0%} of the mean probability"


def average_policy(aug: InstaAug, images: Iterable[Batch], n: int) -> StaticPolicy:
    r"""The ``n`` views with the largest mean probability over the data.

    .. math:: \bar p(k) = \frac1N \sum_i p(k \mid x_i)

    With several finite factors a view is a choice of each, and its probability for an input is
    the product of theirs. Boxes that jitter stay in place. If ``aug`` keeps the original, that is
    the first view, as probable as the best of the others.

    Arguments:
        aug: The fitted augmenter, whose factors are all finite: crops, flips.
        images: Batches of images as ``aug`` takes them; of a tuple, the first entry.
        n: Number of views.

    Raises:
        ArgumentError: If a factor is continuous, there are no images, or ``n`` is out of range.

    Example:
        >>> from instaaug.transforms import Crop
        >>> aug = InstaAug(Crop(levels=((1.0, 1), (0.5, 2))), conditioning="none")
        >>> policy = average_policy(aug, [torch.rand(2, 3, 8, 8)], n=2)
        >>> policy.theta[0]  # the whole image, at the start
        (0.0, 0.0, 2.0, 2.0)
    """
    _check_factors(aug)
    original = aug.transform.identity().double() if aug.settings.keep_original else None
    network = aug.phi.network
    borrowed = [network.model] if isinstance(network, FrozenFeatures) else []
    total, table, n_images = torch.zeros(1), torch.empty(0), 0
    with evaluation_mode(nn.ModuleList([aug, *borrowed])), torch.no_grad():
        for batch in images:
            x = batch if isinstance(batch, Tensor) else batch[0]
            joint = _boxes_in_place(aug.distribution(x.to(next(aug.parameters()).device)))
            listed = original is not None
            choice = aug.other_choices(joint) if listed else enumerate_choices(joint)
            if not n_images:
                _check_n(n, len(choice.table) + (original is not None))
            total, table = total + choice.probs.sum(dim=0), choice.table
            n_images += len(x)
    if not n_images:
        raise ArgumentError("`images` must hold at least one batch: got none.")
    mean, order = (total / n_images).sort(descending=True, stable=True)
    rows = table[order]
    if original is not None:
        rows, mean = torch.cat([original, rows]), torch.cat([mean[:1], mean]) / (1 + mean[0])
    return StaticPolicy(
        theta=tuple(tuple(row) for row in rows[:n].tolist()),
        probabilities=tuple(mean[:n].clamp(max=1.0).tolist()),
        transform=aug.transform,
        padding_mode=aug.settings.padding_mode,
    )


def _boxes_in_place(joint: Joint) -> Joint:
    """The finite factors, boxes without jitter, on the CPU and in double precision."""
    factors = {
        name: CategoricalTheta(factor.logits.cpu().double(), factor.table.cpu().double())
        for name, factor in joint.finite().items()
    }
    return Joint(factors)


def _check_factors(aug: InstaAug) -> None:
    if aug.settings.conditioning == "class":
        raise ArgumentError(
            "`aug` must choose without the class, which is unknown at test time: got "
            'conditioning="class", which then draws at random. Fit one with conditioning="input".'
        )
    continuous = [name for name in aug.phi.names if name not in aug.finite]
    if continuous:
        raise ArgumentError(
            "`aug` must choose from finite sets, of which a policy can list the best: got "
            f"{', '.join(continuous)} with intervals. Fit crops and flips alone, or export φ with "
            "export_phi."
        )
    tables = [f.table for f in aug.phi.families if isinstance(f, CategoricalFamily)]
    if (n_rows := prod(len(table) for table in tables)) > MOST_ROWS:
        raise ArgumentError(
            f"`aug` must have at most {MOST_ROWS:,} combinations of choices: got {n_rows:,}. Use "
            "fewer boxes or fewer transforms."
        )


def _check_n(n: int, n_rows: int) -> None:
    if not 1 <= n <= min(n_rows, MOST_VIEWS):
        raise ArgumentError(
            f"`n` must lie in [1, {min(n_rows, MOST_VIEWS)}], for there are {n_rows} views to "
            f"choose from: got {n}."
        )


def _from_config(config: Any) -> StaticPolicy:
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise DataError(f"This version reads {FORMAT!r}. Write it with StaticPolicy.save.")
    parts, theta, probabilities = config["transform"], config["theta"], config["probabilities"]
    if not 1 <= len(theta) <= MOST_VIEWS:
        raise DataError(f"It lists {len(theta):,} views; 1 to {MOST_VIEWS:,} are read.")
    if parts["size"] is not None and prod(parts["size"]) > MOST_PIXELS:
        raise DataError(f"Its views would have {prod(parts['size']):,} pixels each.")
    transform = as_composition(
        [from_config(part) for part in parts["transforms"]],
        mean=parts["mean"], std=parts["std"], size=parts["size"],
    )  # fmt: skip
    return StaticPolicy(
        theta=tuple(tuple(float(value) for value in row) for row in theta),
        probabilities=tuple(float(p) for p in probabilities),
        transform=transform,
        padding_mode=config["padding_mode"],
    )


def _check_rows(theta: tuple[Row, ...], transform: Composition) -> None:
    if not theta:
        raise ArgumentError("`theta` must hold at least one view: got none.")
    for row in theta:
        if len(row) != transform.n_parameters or not all(isfinite(value) for value in row):
            raise ArgumentError(
                f"`theta` must have finite rows of {transform.n_parameters} columns, "
                f"{', '.join(transform.columns)}: got {row}."
            )


def _check_probabilities(probabilities: Row, n: int) -> None:
    falling = all(a >= b for a, b in pairwise(probabilities))
    inside = all(0 <= p <= 1 for p in probabilities) and 0 < sum(probabilities) <= 1 + ROUNDING
    if len(probabilities) != n or not falling or not inside:
        raise ArgumentError(
            f"`probabilities` must be {n} numbers in [0, 1], one per view, that fall and sum to "
            f"at most 1, not to 0: got {probabilities[:10]}."
        )
