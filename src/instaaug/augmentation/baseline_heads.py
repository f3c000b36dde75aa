"""What the score function subtracts: losses that are predicted from φ's features."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from instaaug.objectives import Baseline
from instaaug.parameterizations import InvarianceModule, PooledHead
from instaaug.shapes import Maps

__all__ = ["BaselineHeads"]


class BaselineHeads(nn.Module):
    """Predicts, from φ's features, the loss of an input or of each of its choices.

    The features are detached, so that learning to predict the loss does not change φ.

    Arguments:
        phi: Whose features the heads read.
        baseline: ``"value"`` makes one head, ``"critic"`` one per finite factor; others none.
        finite: The finite factors and their number of choices, by name.
    """

    def __init__(self, phi: InvarianceModule, baseline: Baseline, finite: dict[str, int]) -> None:
        super().__init__()
        self.value_head: nn.Module | None = None
        if baseline == "value" and finite:
            self.value_head = PooledHead(phi.channels, torch.zeros(1))
        critics = finite if baseline == "critic" else {}
        self.names = {name: name.replace(".", "_") for name in critics}  # torch forbids dots
        self.critics = nn.ModuleDict(
            {
                self.names[name]: phi.make_input_head(name, torch.zeros(k))
                for name, k in critics.items()
            }
        )

    def value(self, maps: Sequence[Maps], batch: int) -> Float[Tensor, " batch"] | None:
        """Predicted loss of each input."""
        if self.value_head is None:
            return None
        return self.value_head([m.detach() for m in maps], None, batch).float().squeeze(-1)

    def critic(
        self, name: str, maps: Sequence[Maps], batch: int
    ) -> Float[Tensor, "batch k"] | None:
        """Predicted loss of each choice of factor ``name``."""
        if name not in self.names:
            return None
        return self.critics[self.names[name]]([m.detach() for m in maps], None, batch).float()
