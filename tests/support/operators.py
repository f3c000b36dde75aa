"""Which operators run, and how often: cost without a clock."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Counter"]


class Counter(TorchDispatchMode):
    """Counts the operators that reach the dispatcher, by name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.overloadpacket)
        self.counts[name] = self.counts.get(name, 0) + 1
        return func(*args, **(kwargs or {}))

    @property
    def total(self) -> int:
        return sum(self.counts.values())
