"""The graph that autograd will walk back through."""

from typing import Any

from torch import Tensor

__all__ = ["graph_nodes"]


def graph_nodes(result: Tensor) -> dict[str, int]:
    """How often each kind of backward operator stands in the graph of a result."""
    seen: set[Any] = set()
    counts: dict[str, int] = {}
    waiting = [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        counts[node.name()] = counts.get(node.name(), 0) + 1
        waiting += [following for following, _ in node.next_functions]
    return counts
