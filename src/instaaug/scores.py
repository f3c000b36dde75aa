"""Scores as sums: constant memory, and several processes simply add theirs up."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

__all__ = ["ClassificationTally", "ContrastTally", "RegressionTally", "Tally"]

N_BINS = 15
ROUNDING = 1e-14  # a variance so much smaller than the squares is not one


class Tally(ABC):
    """A vector of sums over inputs, and the scores that follow from it.

    It is kept in double precision on the CPU: not every accelerator has that.
    """

    def __init__(self, size: int) -> None:
        self.sums = torch.zeros(size, dtype=torch.float64)

    @abstractmethod
    def add(self, outputs: Tensor, targets: Tensor) -> None:
        """Count the outputs of a batch."""

    @abstractmethod
    def scores(self) -> dict[str, float]:
        """The scores of everything counted so far, by name."""

    def reset(self) -> None:
        """Start again from nothing."""
        self.sums.zero_()

    def add_other_processes(self) -> None:
        """Make the sums those of all processes together."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            on_cuda = torch.distributed.get_backend() == "nccl"
            sums = self.sums.to("cuda" if on_cuda else "cpu")
            torch.distributed.all_reduce(sums)
            self.sums = sums.cpu()


class ClassificationTally(Tally):
    r"""Top-1 and, from six classes on, top-5 accuracy, negative log-likelihood, calibration error.

    The calibration error sorts predictions into 15 bins by their confidence and averages
    the distance between confidence and accuracy:

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n}\,
              \Bigl|\,\mathrm{accuracy}_b - \mathrm{confidence}_b\Bigr|.

    References:
        | On Calibration of Modern Neural Networks (Guo et al., 2017)
        | https://arxiv.org/abs/1706.04599

    Example:
        >>> tally = ClassificationTally()
        >>> tally.add(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1]))
        >>> {name: round(value, 2) for name, value in tally.scores().items()}
        {'top1': 0.5, 'nll': 4.5, 'ece': 0.5, 'n': 2.0}
    """

    def __init__(self) -> None:
        super().__init__(4 + 3 * N_BINS)
        self.num_classes = 0

    @override
    def add(self, outputs: Float[Tensor, "batch classes"], targets: Tensor) -> None:
        logits, labels = outputs.detach().float().cpu(), targets.long().cpu()
        self.num_classes = logits.shape[1]
        best = logits.topk(min(5, logits.shape[1]), dim=1).indices
        hits = best == labels[:, None]
        confidence = logits.softmax(dim=1).amax(dim=1).double()
        right = hits[:, 0].double()
        bin_of = (confidence * N_BINS).long().clamp(0, N_BINS - 1)  # NaN turns up in the sums
        table = self.sums.new_zeros(3, N_BINS)
        for row, values in zip(table, (torch.ones_like(right), right, confidence), strict=True):
            row.index_add_(0, bin_of, values)
        nll = F.cross_entropy(logits, labels, reduction="sum").double()
        counts = [right.new_tensor(len(labels)), right.sum(), hits.sum().double(), nll]
        self.sums += torch.cat([torch.stack(counts), table.flatten()])

    @override
    def scores(self) -> dict[str, float]:
        n, top1, top5, nll = self.sums[:4].tolist()
        _, right, confidence = self.sums[4:].view(3, N_BINS)
        n_or_one = max(n, 1.0)
        ece = float((right - confidence).abs().sum()) / n_or_one
        among_five = {"top5": top5 / n_or_one} if self.num_classes > 5 else {}
        return {"top1": top1 / n_or_one, **among_five, "nll": nll / n_or_one, "ece": ece, "n": n}


class RegressionTally(Tally):
    """Root mean squared error, mean absolute error, and the share of variance explained.

    Example:
        >>> tally = RegressionTally()
        >>> tally.add(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        >>> {name: round(value, 2) for name, value in tally.scores().items()}
        {'rmse': 1.41, 'mae': 1.0, 'r2': 0.11, 'n': 2.0}
    """

    def __init__(self) -> None:
        super().__init__(5)

    @override
    def add(self, outputs: Tensor, targets: Tensor) -> None:
        y = targets.cpu().double()
        y = y.flatten(1) if y.ndim > 1 else y[:, None]
        error = outputs.detach().cpu().double().reshape(y.shape) - y
        d = y.shape[1]
        self.sums += torch.stack(
            [
                error.new_tensor(len(y)),
                error.square().sum() / d,
                error.abs().sum() / d,
                y.sum() / d,
                y.square().sum() / d,
            ]
        )

    @override
    def scores(self) -> dict[str, float]:
        n, squared, absolute, total, total_squared = self.sums.tolist()
        n_or_one = max(n, 1.0)
        variance = total_squared - total**2 / n_or_one
        all_the_same = variance <= ROUNDING * total_squared  # and nothing to explain
        r2 = float(squared == 0) if all_the_same else 1 - squared / variance
        return {
            "rmse": (squared / n_or_one) ** 0.5,
            "mae": absolute / n_or_one,
            "r2": r2,
            "n": n,
        }


class ContrastTally(Tally):
    """Mean NT-Xent of views, and how many of them found the other one of their image.

    Example:
        >>> tally = ContrastTally()
        >>> tally.add(torch.tensor([0.5, 1.5]), torch.tensor([True, False]))
        >>> tally.scores()
        {'nll': 1.0, 'found': 0.5, 'n': 2.0}
    """

    def __init__(self) -> None:
        super().__init__(3)

    @override
    def add(self, outputs: Tensor, targets: Tensor) -> None:
        """Count the loss of each view, and whether it found its partner."""
        losses, found = outputs.detach().double().cpu(), targets.double().cpu()
        self.sums += torch.stack([losses.new_tensor(losses.numel()), losses.sum(), found.sum()])

    @override
    def scores(self) -> dict[str, float]:
        n, total, found = self.sums.tolist()
        n_or_one = max(n, 1.0)
        return {"nll": total / n_or_one, "found": found / n_or_one, "n": n}
