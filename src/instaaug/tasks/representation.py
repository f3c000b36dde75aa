"""How good features are: a linear probe and the nearest neighbors, fitted to training images."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from instaaug.networks.linear_probe import LinearProbe
from instaaug.scores import ClassificationTally
from instaaug.tasks.evaluation import Predictor
from instaaug.tasks.neighbors import neighbor_scores
from instaaug.tasks.probing import fit_probe

__all__ = ["Representation", "collect_features"]


@dataclass(frozen=True)
class Representation:
    """Features of training images with their classes, and a linear probe that was fitted to them.

    Arguments:
        features: Of the training images.
        targets: Their classes.
        probe: From features to logits.
        decay: The penalty on its weights, which a part of the training images has chosen.
        validation: Its accuracy on that part, when fitted to the others.
    """

    features: Float[Tensor, "n d"]
    targets: Int[Tensor, " n"]
    probe: LinearProbe
    decay: float
    validation: float

    @classmethod
    def fit(
        cls,
        features: Float[Tensor, "n d"],
        targets: Int[Tensor, " n"],
        *,
        num_classes: int,
        seed: int = 0,
    ) -> "Representation":
        """Fit a linear probe; the seed decides which images choose the penalty."""
        kept = features.half().float()  # what a file keeps of them: all else follows from that
        fitted = fit_probe(kept, targets, num_classes=num_classes, seed=seed)
        validation = fitted.validation.get(fitted.decay, 0.0)
        return cls(kept, targets, fitted.probe, fitted.decay, validation)

    def scores(
        self, features: Float[Tensor, "m d"], targets: Int[Tensor, " m"]
    ) -> dict[str, float]:
        """Scores of the probe, ``knn``, the accuracy of nearest neighbors, and its choice."""
        tally, near = ClassificationTally(), ClassificationTally()
        tally.add(self.probe(features), targets)
        num_classes = self.probe.weight.shape[0]
        near.add(
            neighbor_scores(self.features, self.targets, features, num_classes=num_classes),
            targets,
        )
        chosen = {"probe_decay": self.decay, "probe_validation": self.validation}
        return {**tally.scores(), "knn": near.scores()["top1"], **chosen}

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file; features in half precision."""
        probe = {f"probe.{name}": tensor for name, tensor in self.probe.state_dict().items()}
        chosen = torch.tensor([self.decay, self.validation], dtype=torch.float64)
        own = {"features": self.features.half(), "targets": self.targets, "chosen": chosen}
        return {**own, **probe}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Representation":
        """Read back.

        Raises:
            KeyError: If a tensor is absent.
            RuntimeError: If shapes do not fit.
        """
        weight = tensors["probe.weight"]
        num_classes, n_features = weight.shape
        probe = LinearProbe(n_features, num_classes)
        parts = {n.removeprefix("probe."): t for n, t in tensors.items() if n.startswith("probe.")}
        probe.load_state_dict(parts)
        features, targets = tensors["features"].float(), tensors["targets"]
        decay, validation = tensors["chosen"].tolist()
        return cls(features, targets, probe.eval(), decay, validation)


def collect_features(
    encode: Predictor, batches: Iterable[tuple[Tensor, Tensor]]
) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """Features of all images and their classes, on the processor."""
    pairs = [(encode(x).float().cpu(), targets.cpu()) for x, targets in batches]
    return torch.cat([features for features, _ in pairs]), torch.cat([y for _, y in pairs])
