"""p(θ|x), and what the model says of x where φ has to ask it anyway."""

import torch
from torch import Tensor, nn

from instaaug.distributions import Joint
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_output import Output, picked
from instaaug.parameterizations import InvarianceModule
from instaaug.shapes import Images

__all__ = ["looked_at"]


def looked_at(
    phi: InvarianceModule,
    x: Images,
    *,
    model: nn.Module | None = None,
    output: Output | None = None,
    chunk_size: int | None = None,
) -> tuple[Joint, object]:
    """The distribution of each input; and the outputs of ``model`` if φ reads its features.

    Arguments:
        phi: Finds the distributions.
        x: Images as the model takes them.
        model: The one that is to predict.
        output: Picks the tensor out of what it returns.
        chunk_size: Most images that a frozen model sees at once.
    """
    network = phi.network
    if not isinstance(network, FrozenFeatures):
        return phi(x), None
    is_own = network.reads(model)
    seen: list[Tensor] = []
    outputs: list[object] = []
    with torch.set_grad_enabled(is_own and torch.is_grad_enabled()):
        for part, returned in network.looks(x, chunk_size=chunk_size):
            seen.append(part)
            outputs += [picked(returned, output)] if is_own else []
    joint = phi.decode(network.maps(torch.cat(seen)), None, len(x))
    rows = [part for part in outputs if isinstance(part, Tensor) and part.ndim]
    if len(rows) < len(outputs):
        return joint, outputs[0]  # no rows per input; whoever merges outputs will say so
    return joint, torch.cat(rows) if is_own else None
