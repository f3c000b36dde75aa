"""Fast AutoAugment: pairs of operations that a search found on the data at hand."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.augmentation.settings import as_composition
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.drawn_operations import with_hole_places
from instaaug.methods.operation_levels import LEVELS, values_at
from instaaug.methods.operations import OPERATIONS, Interpolation, Operations, number_of
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import SimpleAugmenter
from instaaug.shapes import Images, Rendered

__all__ = ["FastAutoAugment", "Step", "SubPolicy", "read_policy"]

DECIMALS = 6  # float32 holds so many of a number in [0, 1]


class Step(NamedTuple):
    """An operation, how likely it happens, and how strong it is.

    Arguments:
        operation: A name from :data:`~instaaug.methods.operation_levels.LEVELS`.
        probability: In [0, 1].
        level: In [0, 1], from the lowest to the highest value of the operation.
    """

    operation: str
    probability: float
    level: float


SubPolicy = tuple[Step, ...]
"""What may happen to one image, in this order."""


def read_policy(values: Any) -> tuple[SubPolicy, ...]:
    """A policy from nested lists, as JSON has it; every number is checked.

    Arguments:
        values: Sub-policies, each a list of steps, each an operation's name, a probability and a
            level: the form in which the authors publish theirs.

    Example:
        >>> read_policy([[["invert", 0.4, 0.0], ["rotate", 1, 0.75]]])
        ((Step(operation='invert', probability=0.4, level=0.0),
          Step(operation='rotate', probability=1.0, level=0.75)),)
    """
    try:
        steps = [[(str(name), float(p), float(v)) for name, p, v in one] for one in values]
    except (TypeError, ValueError):
        raise ArgumentError(
            "`policy` must be a list of sub-policies of steps (operation, probability, level): "
            f"got {str(values)[:100]}. A sub-policy is [['invert', 0.4, 0.0], ['rotate', 1, 0.7]]."
        ) from None
    for name, probability, level in (step for one in steps for step in one):
        if name not in LEVELS:
            raise UnknownNameError("operation", name, LEVELS)
        if not (0 <= probability <= 1 and 0 <= level <= 1):
            raise ArgumentError(
                "`policy` must have probabilities and levels in [0, 1]: got probability "
                f"{probability:g} and level {level:g} of {name!r}."
            )
    return tuple(tuple(Step(*step) for step in one) for one in steps)


@METHODS.register("fast_autoaugment")
class FastAutoAugment(SimpleAugmenter):
    """Draws one of its sub-policies per input; each of its steps happens with a probability.

    A new one does nothing. :func:`~instaaug.methods.policy_search.search_policy` finds a policy
    for the data, ``set_policy`` takes it, and it is saved with the other weights. Levels go
    linearly over the authors' ranges (slopes ±0.3, moves ±0.45 sides, ±30°, factors 0.1 to 1.9,
    thresholds 0 to 256, 4 to 8 bits, holes up to 0.2 sides); shear, translate and rotate, and only
    these, go in the other direction half of the time.

    The last four arguments say how much of a search a training run does beforehand. Their defaults
    suit a laptop; the authors' numbers are in brackets.

    Arguments:
        n_policies: Room for so many sub-policies; a fold yields up to 50.
        n_operations: Steps of a sub-policy.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation, likewise.
        interpolation: How a warp reads between pixels: ``"nearest"`` as in the source, or
            ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Side, or height and width, of what comes out; the input's own by default.
        n_folds: Splits of the training images, and models trained without augmentation [5].
        n_trials: Policies that are tried with each of these models [200].
        n_images: Held-out images that a policy is judged by; 0 for all [all, 40 %].
        fold_epochs: Epochs of these models; 0 for as many as the run has [as many].

    References:
        | Fast AutoAugment (Lim et al., 2019)
        | https://arxiv.org/abs/1905.00397

    Example:
        >>> aug = FastAutoAugment(n_policies=10)
        >>> aug.set_policy([[("invert", 1.0, 0.0), ("auto_contrast", 0.0, 0.0)]])
        >>> aug(torch.tensor([0.0, 0.25]).view(1, 1, 1, 2)).inputs
        tensor([[[[1.0000, 0.7500]]]])
        >>> aug
        FastAutoAugment(1 sub-policy of 2 steps, room for 10)
    """

    tasks = frozenset({"classification"})
    needs_labels = True
    needs_search = True
    averages_views = False
    operation: Tensor
    probability: Tensor
    level: Tensor
    n_used: Tensor

    def __init__(
        self,
        *,
        n_policies: int = 500,
        n_operations: int = 2,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
        n_folds: int = 2,
        n_trials: int = 100,
        n_images: int = 500,
        fold_epochs: int = 0,
    ) -> None:
        super().__init__()
        least = {"n_policies": 1, "n_folds": 1, "n_trials": 1, "n_images": 0, "fold_epochs": 0}
        given = (n_policies, n_folds, n_trials, n_images, fold_epochs)
        for (name, fewest), value in zip(least.items(), given, strict=True):
            if value < fewest:
                raise ArgumentError(f"`{name}` must be at least {fewest}: got {value}.")
        operations = Operations(n_operations, interpolation)
        self.transform = as_composition(operations, mean=mean, std=std, size=size)
        self.n_policies, self.n_operations = n_policies, n_operations
        self.padding_mode: PaddingMode = padding_mode
        self.n_folds, self.n_trials = n_folds, n_trials
        self.n_images, self.fold_epochs = n_images, fold_epochs
        slots = (n_policies, n_operations)
        self.register_buffer("operation", torch.full(slots, number_of("identity")))
        self.register_buffer("probability", torch.zeros(slots))
        self.register_buffer("level", torch.zeros(slots))
        self.register_buffer("n_used", torch.tensor(0))

    @property
    def policy(self) -> tuple[SubPolicy, ...]:
        """The sub-policies, one of which is drawn per input; ``json.dumps`` can write them."""
        columns = (self.operation, self.probability, self.level)
        used = zip(*(column[: int(self.n_used)].tolist() for column in columns), strict=True)
        return tuple(
            tuple(
                Step(OPERATIONS[o], round(p, DECIMALS), round(v, DECIMALS))
                for o, p, v in zip(*rows, strict=True)
            )
            for rows in used
        )

    def set_policy(self, policy: Any) -> None:
        """Replace the sub-policies.

        Arguments:
            policy: What :func:`read_policy` takes, each sub-policy with ``n_operations`` steps.
        """
        steps = read_policy(policy)
        if len(steps) > self.n_policies:
            raise ArgumentError(
                f"`policy` must have at most `n_policies` sub-policies: got {len(steps)}, with "
                f"room for {self.n_policies}. Raise `n_policies`."
            )
        lengths = {len(one) for one in steps} - {self.n_operations}
        if lengths:
            raise ArgumentError(
                f"`policy` must have {self.n_operations} steps in every sub-policy: got one of "
                f"{min(lengths)}. Set `n_operations`, or fill up with steps of probability 0."
            )
        self.operation.fill_(number_of("identity"))
        self.probability.zero_()
        self.level.zero_()
        self.n_used.fill_(len(steps))
        if steps:
            rows = [[(number_of(s.operation), *s[1:]) for s in one] for one in steps]
            table = torch.tensor(rows, dtype=torch.float64)
            for buffer, column in zip(
                (self.operation, self.probability, self.level), table.unbind(-1), strict=True
            ):
                buffer[: len(steps)].copy_(column)

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        drawn, device = (n_samples, len(x)), x.device
        n_used = self.n_used.clamp(min=1)  # the first slot of a new one does nothing
        which = (torch.rand(drawn, generator=generator, device=device) * n_used).long()
        happens = torch.rand(*drawn, self.n_operations, generator=generator, device=device)
        coin = torch.rand(happens.shape, generator=generator, device=device) < 0.5
        operation = self.operation[which]
        value = values_at(operation, self.level[which], coin)
        value = with_hole_places(operation, value, generator)
        applied = happens < self.probability[which]
        steps = torch.stack([operation.to(value.dtype), value], dim=-1)
        return torch.where(applied[..., None], steps, 0.0).flatten(-2)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.padding_mode)

    @override
    def extra_repr(self) -> str:
        n = int(self.n_used)
        found = f"{n} sub-polic{'y' if n == 1 else 'ies'} of {self.n_operations} steps"
        return f"{found if n else 'no policy yet'}, room for {self.n_policies}"
