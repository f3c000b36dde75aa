"""Fast AutoAugment: pairs of operations that a search found on the data at hand."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.augmenter import HeldOutBatch
from instaaug.errors import ArgumentError, InstaAugError, UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import (
    LEVELS,
    OPERATIONS,
    Interpolation,
    Operations,
    add_hole_places,
    operation_index,
    values_at,
)
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import TransformAugmenter
from instaaug.networks.model_interface import evaluation_mode
from instaaug.shapes import Images

__all__ = [
    "FastAutoAugment",
    "MissingOptunaError",
    "OnTrial",
    "Step",
    "SubPolicy",
    "density_match",
    "import_optuna",
    "quiet_optuna",
    "read_policy",
    "search_policy",
]


DECIMALS = 6  # the precision of float32 in [0, 1]


class Step(NamedTuple):
    """An operation, how likely it happens, and how strong it is.

    Arguments:
        operation: A name from :data:`~instaaug.methods.operations.LEVELS`.
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
class FastAutoAugment(TransformAugmenter):
    """Draws one of its sub-policies per input; each of its steps happens with a probability.

    A new one does nothing. :func:`search_policy` finds a policy for the data, :meth:`set_policy`
    takes it, and it is saved with the other weights. Levels are linear in the authors' ranges
    (slopes ±0.3, translations ±0.45 sides, ±30°, factors 0.1 to 1.9, thresholds 0 to 256, 4 to 8
    bits, holes up to 0.2 sides); shear, translate and rotate, and only these, are done in the
    opposite direction half of the time.

    The last four arguments say how much of a search a training run does beforehand. Their defaults
    suit a laptop; the authors' numbers are in brackets.

    Arguments:
        n_policies: Largest number of sub-policies; a fold yields up to 50.
        n_operations: Steps of a sub-policy.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation the images were normalized with.
        interpolation: How a warp reads between pixels: ``"nearest"`` as in the source, or
            ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Output side, or height and width; the input's own by default.
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
        operations = Operations(n_operations, interpolation)
        super().__init__(operations, mean=mean, std=std, padding_mode=padding_mode, size=size)
        least = {"n_policies": 1, "n_folds": 1, "n_trials": 1, "n_images": 0, "fold_epochs": 0}
        given = (n_policies, n_folds, n_trials, n_images, fold_epochs)
        for (name, fewest), value in zip(least.items(), given, strict=True):
            if value < fewest:
                raise ArgumentError(f"`{name}` must be at least {fewest}: got {value}.")
        self.n_policies, self.n_operations = n_policies, n_operations
        self.n_folds, self.n_trials = n_folds, n_trials
        self.n_images, self.fold_epochs = n_images, fold_epochs
        slots = (n_policies, n_operations)
        self.register_buffer("operation", torch.full(slots, operation_index("identity")))
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
        self.operation.fill_(operation_index("identity"))
        self.probability.zero_()
        self.level.zero_()
        self.n_used.fill_(len(steps))
        if steps:
            rows = [[(operation_index(s.operation), *s[1:]) for s in one] for one in steps]
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
        value = add_hole_places(operation, value, generator)
        applied = happens < self.probability[which]
        steps = torch.stack([operation.to(value.dtype), value], dim=-1)
        return torch.where(applied[..., None], steps, 0.0).flatten(-2)

    @override
    def extra_repr(self) -> str:
        n = int(self.n_used)
        found = f"{n} sub-polic{'y' if n == 1 else 'ies'} of {self.n_operations} steps"
        return f"{found if n else 'no policy yet'}, room for {self.n_policies}"


class MissingOptunaError(InstaAugError, ImportError):
    """Optuna is needed for a search and is not installed."""


def import_optuna() -> Any:
    """The package, or an error that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise MissingOptunaError(
            "This search needs Optuna, which is not installed. Run: pip install 'instaaug[tune]'"
        ) from None
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[Any]:
    """Optuna, without a line in the log for every trial."""
    optuna = import_optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)


N_RANDOM_TRIALS = 20  # hyperopt's, which the authors use
SEARCH_DECIMALS = 4

OnTrial = Callable[[int, int], None]
"""Called with the number of policies tried and of all."""


def search_policy(
    model: nn.Module,
    held_out: HeldOutBatch,
    augmenter: FastAutoAugment,
    *,
    n_trials: int = 200,
    n_subpolicies: int = 5,
    n_passes: int = 5,
    n_best: int = 10,
    chunk_size: int = 256,
    seed: int = 0,
    on_trial: OnTrial | None = None,
) -> tuple[SubPolicy, ...]:
    """Find sub-policies with one model that was trained without them on other images.

    A trial is a policy of a few sub-policies; TPE, the tree-structured Parzen estimator, proposes
    the next one from the :func:`density_match` of those before. The best trials are put together.
    As in the source, of the sub-policies of a trial with the same operations in the same order
    only the first is kept, and what is found with several models is simply joined.

    Arguments:
        model: Returns logits ``(B, num_classes)``; is left as it was.
        held_out: Images that the model was not trained on.
        augmenter: Says how operations are applied and how many a sub-policy has; is left as it
            was.
        n_trials: Policies to try; the first 20 are random.
        n_subpolicies: Sub-policies of a trial.
        n_passes: Times that every image is augmented in a trial.
        n_best: Trials to keep.
        chunk_size: Most rows per call of the model, which bounds the memory.
        seed: Decides what is tried and drawn.
        on_trial: Told of the progress.

    Raises:
        MissingOptunaError: If Optuna is not installed.

    References:
        | Fast AutoAugment (Lim et al., 2019)
        | https://arxiv.org/abs/1905.00397

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
        >>> held_out = HeldOutBatch(torch.rand(16, 3, 8, 8), torch.arange(16) % 10)
        >>> aug = FastAutoAugment()
        >>> aug.set_policy(search_policy(model, held_out, aug, n_trials=3, n_best=2))
        >>> aug
        FastAutoAugment(10 sub-policies of 2 steps, room for 500)
    """
    _check(n_trials=n_trials, n_subpolicies=n_subpolicies, n_passes=n_passes, n_best=n_best)
    device = held_out.inputs.device
    candidate = deepcopy(augmenter).to(device)
    generator = Generator(device).manual_seed(seed)
    tried: list[tuple[float, tuple[SubPolicy, ...]]] = []
    with quiet_optuna() as optuna, evaluation_mode(model):
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=N_RANDOM_TRIALS,
            multivariate=False,  # like hyperopt's
            constant_liar=False,  # there is one trial at a time
            seed=seed,
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        space = _space(optuna, n_subpolicies, augmenter.n_operations)
        for i in range(n_trials):
            trial = study.ask(space)
            policy = _decode(trial.params, n_subpolicies, augmenter.n_operations)
            candidate.set_policy(policy)
            reward = density_match(
                model,
                held_out,
                candidate,
                n_passes=n_passes,
                chunk_size=chunk_size,
                generator=generator,
            )
            study.tell(trial, reward)
            tried.append((reward, policy))
            if on_trial is not None:
                on_trial(i + 1, n_trials)
    best = sorted(tried, key=lambda one: -one[0])[:n_best]  # the earlier ones of equals
    return tuple(one for _, policy in best for one in _drop_duplicates(policy))


@torch.no_grad()
def density_match(
    model: nn.Module,
    held_out: HeldOutBatch,
    augmenter: FastAutoAugment,
    *,
    n_passes: int = 5,
    chunk_size: int = 256,
    generator: Generator | None = None,
) -> float:
    """Share of images that the model classifies rightly in at least one of several passes.

    Arguments:
        model: In evaluation mode.
        held_out: Images that it was not trained on.
        augmenter: Augments every image in every pass.
        n_passes: How often.
        chunk_size: Most rows per call of the model.
        generator: Source of randomness.
    """
    n_right = 0
    n_images = max(chunk_size // n_passes, 1)
    for x, targets in zip(
        held_out.inputs.split(n_images), held_out.targets.split(n_images), strict=True
    ):
        outputs = model(augmenter(x, n_passes, generator=generator).inputs)
        right = outputs.argmax(dim=1).view(n_passes, -1) == targets
        n_right += int(right.any(dim=0).sum())
    return n_right / len(held_out.targets)


def _check(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ArgumentError(f"`{name}` must be at least 1: got {value}.")


def _space(optuna: Any, n_subpolicies: int, n_operations: int) -> dict[str, Any]:
    space: dict[str, Any] = {}
    for place in _places(n_subpolicies, n_operations):
        space[f"operation_{place}"] = optuna.distributions.CategoricalDistribution(tuple(LEVELS))
        space[f"probability_{place}"] = optuna.distributions.FloatDistribution(0.0, 1.0)
        space[f"level_{place}"] = optuna.distributions.FloatDistribution(0.0, 1.0)
    return space


def _places(n_subpolicies: int, n_operations: int) -> list[str]:
    return [f"{i}_{j}" for i in range(n_subpolicies) for j in range(n_operations)]


def _decode(
    values: dict[str, Any], n_subpolicies: int, n_operations: int
) -> tuple[SubPolicy, ...]:
    steps = [
        Step(
            values[f"operation_{place}"],
            round(values[f"probability_{place}"], SEARCH_DECIMALS),
            round(values[f"level_{place}"], SEARCH_DECIMALS),
        )
        for place in _places(n_subpolicies, n_operations)
    ]
    return tuple(tuple(steps[i : i + n_operations]) for i in range(0, len(steps), n_operations))


def _drop_duplicates(policy: tuple[SubPolicy, ...]) -> list[SubPolicy]:
    """The first sub-policy of each sequence of operations."""
    first: dict[tuple[str, ...], SubPolicy] = {}
    for one in policy:
        first.setdefault(tuple(step.operation for step in one), one)
    return list(first.values())
