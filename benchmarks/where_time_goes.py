"""Where does the time of a training step go? Every microsecond of it, by phase and operator.

    python -m benchmarks.where_time_goes                             # into benchmarks/results
    python -m benchmarks.where_time_goes --label before --out FILE   # for benchmarks.icicle

The profiler itself costs time: ``profiled_ms`` beside ``plain_ms`` says how much. Milliseconds of
two runs compare on a quiet machine only. An old checkout is measured with ``PYTHONPATH=OLD/src``,
so nothing is imported here that it may lack.
"""

import json
import re
import statistics
import timeit
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.autograd.profiler_util import EventList, FunctionEvent
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.icicle import Block, merged, number
from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.networks import PreActResNet18

__all__ = ["BACKWARD_OF", "PHASES", "Profile", "main", "phase", "profiled"]

OTHER = "other"
BACKWARD_OF = {
    "φ forward": "backward of φ",
    "sampling": "backward of φ",
    "warp": "backward of warp and color",
    "color": "backward of warp and color",
    "model forward": "backward of the model",
    "objective": "objective",
}
"""Where the backward operators go that belong to the operators of a phase; others: ``OTHER``."""

PHASES = (
    "φ forward", "sampling", "warp", "color", "backward of warp and color", "backward of φ",
    "objective", "model forward", "backward of the model", "optimizer", OTHER,
)  # fmt: skip
"""In the order of tables and pictures: what augmentation costs, then the rest."""


def warp_or_color(_: object, kind: type, *__: object) -> str:
    return "warp" if issubclass(kind, T.GeometricTransform) else "color"


# All that is known here of the inside of the package: whose calls belong to which phase.
PARTS: dict[str, str | Callable[..., str]] = {
    "augmentation.instaaug:InstaAug.canonical": "φ forward",
    "parameterizations.invariance:InvarianceModule.features": "φ forward",
    "parameterizations.invariance:InvarianceModule.decode": "φ forward",
    "distributions.joint:Joint.draw": "sampling",
    "distributions.joint:Joint.theta": "sampling",
    "distributions.joint:Joint.log_prob": "sampling",
    "distributions.joint:Joint.entropies": "sampling",
    "augmentation.instaaug:InstaAug._score_factors": "sampling",
    "transforms.compose:Composition._apply_at_once": warp_or_color,
}

BATCH, SIDE, CLASSES = 100, 64, 200
WIDTHS = {"16 times cheaper": 0.25}  # with 1.0, augmentation is as many ms of a longer step
WARM_UP, ROUNDS = 3, 20
Transforms = T.Transform | list[T.Transform | str]
TRANSFORMS: dict[str, Transforms] = {
    "crop": T.Crop(),
    "rotation": T.Rotation(),
    "color": T.HSVJitter(),
    "all three": [T.Crop(), T.Rotation(), T.HSVJitter()],
}
STEP, RANGE, NODE = "step", "phase: ", "autograd::engine::evaluate_function: "
PREFIXES = (NODE, "torch::autograd::", "aten::", "_", "mkldnn_", "native_")
WRAPPER = 0.9  # an operator that spends this share in another one is only its wrapper
SLIVER = 0.002  # of the step; what is smaller is merged

Times = dict[tuple[str, ...], float]
Step = Callable[[], object]


class MissingPartError(RuntimeError):
    """A part of the package that is to be watched is not there."""


@dataclass(frozen=True)
class Profile:
    """Where the time of a step went.

    Arguments:
        phases: Median milliseconds by phase.
        tree: The step, its phases as above, and their operators.
        operators: The profiler's own table.
    """

    phases: dict[str, float]
    tree: Block
    operators: str

    @property
    def shares(self) -> dict[str, float]:
        total = sum(self.phases.values())
        return {name: ms / total for name, ms in self.phases.items()}


def phase(name: str) -> record_function:
    """What is done within this context belongs to the phase; the innermost one counts."""
    return record_function(RANGE + name)


@contextmanager
def watched(parts: Mapping[str, str | Callable[..., str]]) -> Iterator[None]:
    """Within this context, calls of the parts of ``instaaug`` are phases."""
    with ExitStack() as patches:
        for place, name in parts.items():
            module, _, path = place.partition(":")
            *owners, attribute = path.split(".")
            try:
                owner: Any = import_module(f"instaaug.{module}")
                for part in owners:
                    owner = getattr(owner, part)
                call = getattr(owner, attribute)
            except (ImportError, AttributeError) as error:
                raise MissingPartError(
                    f"`PARTS` names {place!r}, which is not in the package ({error}). Put there "
                    "what does the same work now."
                ) from error
            patches.enter_context(mock.patch.object(owner, attribute, in_phase(call, name)))
        yield


def in_phase(call: Callable[..., Any], name: str | Callable[..., str]) -> Callable[..., Any]:
    @wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with phase(name if isinstance(name, str) else name(*args, **kwargs)):
            return call(*args, **kwargs)

    return wrapped


def profiled(step: Step, *, steps: int = ROUNDS, warm_up: int = WARM_UP) -> Profile:
    """Run ``step`` under the profiler and find the phase of each operator."""
    for _ in range(warm_up):
        step()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as recorded:
        for _ in range(steps):
            with record_function(STEP):
                step()
    events = recorded.events() or []
    walks = [Walk(e).times for e in events if e.name == STEP and e.cpu_parent is None]
    totals = [totals_by_phase(times) for times in walks]
    phases = {name: statistics.median(total[name] for total in totals) for name in PHASES}
    return Profile(phases, tree_of(walks, phases), table_of(recorded.key_averages()))


class Walk:
    """The self times of one step in milliseconds, by phase and path of operators.

    Autograd numbers its nodes in the order in which they are made, and the profiler notes for
    every operator the number that the next node will get. So the last operator to begin with a
    number not above a node's is the one that made it, and the node's backward belongs to the
    phase of that operator. What stores the gradient of a parameter has no number: the engine runs
    it straight after the node that completed the gradient, and it goes with that one.
    """

    def __init__(self, step: FunctionEvent) -> None:
        self.times: Times = defaultdict(float)
        self.numbers: list[int] = []
        self.phases: list[str] = []
        self.latest = OTHER
        self.visit(step, (OTHER,), in_backward=False)

    def visit(self, event: FunctionEvent, path: tuple[str, ...], *, in_backward: bool) -> None:
        is_node = event.name.startswith(NODE) and not in_backward
        name = short(event.name)
        if is_node:
            self.latest = self.phase_of_backward(event)
            path = (self.latest, name)
        elif event.name.startswith(RANGE) and not in_backward:
            path = (event.name.removeprefix(RANGE),)
        elif event.name != STEP:
            if event.sequence_nr >= 0 and not in_backward:
                self.numbers.append(event.sequence_nr)
                self.phases.append(path[0])
            if len(path) == 1 or path[-1] != name:
                path = (*path, name)
        self.times[path] += event.self_cpu_time_total / 1e3
        for child in sorted(event.cpu_children, key=lambda e: e.time_range.start):
            self.visit(child, path, in_backward=in_backward or is_node)

    def phase_of_backward(self, node: FunctionEvent) -> str:
        if node.sequence_nr < 0:
            return self.latest
        maker = bisect_right(self.numbers, node.sequence_nr) - 1
        return BACKWARD_OF.get(self.phases[maker], OTHER) if maker >= 0 else OTHER


def short(name: str) -> str:
    """The name of an operator as one says it.

    Example:
        >>> short("autograd::engine::evaluate_function: ConvolutionBackward0")
        'convolution_backward'
        >>> short("aten::mkldnn_convolution")
        'convolution'
    """
    name = re.sub(r"Backward\d*$", "_backward", name.rsplit("#", maxsplit=1)[-1])
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def totals_by_phase(times: Times) -> dict[str, float]:
    totals = dict.fromkeys(PHASES, 0.0)
    for path, ms in times.items():
        totals[path[0]] += ms
    return totals


def tree_of(walks: Sequence[Times], phases: Mapping[str, float]) -> Block:
    """Medians of all steps, those within a phase scaled to its own."""
    paths = dict.fromkeys(path for times in walks for path in times)
    middle = {path: statistics.median(times.get(path, 0.0) for times in walks) for path in paths}
    totals = totals_by_phase(middle)
    root = Block(STEP, 0.0, [Block(name) for name in PHASES if totals[name]])
    for path, ms in middle.items():
        at, own = root, ms and ms * phases[path[0]] / totals[path[0]]
        at.ms += own
        for name in path:
            at = at.child(name)
            at.ms += own
    for part in root.children:
        operators = [without_wrappers(child) for child in part.children]
        part.children = merged(operators, least=SLIVER * root.ms)
    return root


def without_wrappers(block: Block) -> Block:
    """The block, or the one in which it spends its time; no details where they hardly count."""
    children = [without_wrappers(child) for child in block.children]
    for child in children:
        if child.ms >= WRAPPER * block.ms:
            return Block(child.name, block.ms, child.children)
    counts = sum(child.ms for child in children) > (1 - WRAPPER) * block.ms
    return Block(block.name, block.ms, children if counts else [])


def table_of(averages: EventList) -> str:
    """The profiler's table of the 15 operators that take the most time themselves."""
    operators = [e for e in averages if e.key != STEP and not e.key.startswith(RANGE)]
    for event in operators:
        event.key = short(event.key)
    table = EventList(operators).table(sort_by="self_cpu_time_total", row_limit=15)
    return "\n".join(line.rstrip() for line in table.strip().splitlines())


def setting(width: float, *, channels_last: bool) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    order = torch.channels_last if channels_last else torch.contiguous_format
    model: nn.Module = PreActResNet18(CLASSES, width=width, stem_stride=2)
    model = model.to(memory_format=order)  # type: ignore[call-overload]
    x = torch.rand(BATCH, 3, SIDE, SIDE).contiguous(memory_format=order)
    return model, x, torch.randint(CLASSES, (BATCH,))


def learned_step(transforms: Transforms, model: nn.Module, x: Tensor, y: Tensor) -> Step:
    aug = InstaAug(transforms)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    optimizer.add_param_group({"params": list(aug.parameters()), "lr": 1e-4})

    def step() -> None:
        batch = aug(x)
        with phase("model forward"):
            losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
        with phase("objective"):
            loss = aug.objective(losses, batch)
        with record_function("engine of autograd"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    return step


def measured(step: Step) -> dict[str, Any]:
    with watched(PARTS):
        found = profiled(step)
    plain = statistics.median(timeit.repeat(step, number=1, repeat=ROUNDS)) * 1e3
    return {
        "phases_ms": {name: round(ms, 3) for name, ms in found.phases.items()},
        "shares": {name: round(share, 5) for name, share in found.shares.items()},
        "profiled_ms": round(sum(found.phases.values()), 1),
        "plain_ms": round(plain, 1),
        "tree": found.tree.to_json(),
        "operators": found.operators,
    }


def show(title: str, cases: Mapping[str, Mapping[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("phase", no_wrap=True)
    for name in cases:
        table.add_column(name, justify="right")
    for name in PHASES:
        cells = ((c["phases_ms"][name], c["shares"][name]) for c in cases.values())
        table.add_row(name, *(f"{number(ms)} {share:4.0%}" for ms, share in cells))
    table.add_section()
    for name in ("profiled_ms", "plain_ms"):
        table.add_row(name, *(f"{case[name]:.1f}" for case in cases.values()))
    Console().print(table)


def main(label: str = "after", out: Path | None = None, *, channels_last: bool = True) -> None:
    models: dict[str, dict[str, Any]] = {title: {} for title in WIDTHS}
    for title, name in product(WIDTHS, TRANSFORMS):
        made = setting(WIDTHS[title], channels_last=channels_last)
        models[title][name] = measured(learned_step(TRANSFORMS[name], *made))
    for title, cases in models.items():
        show(f"{label}: a training step in ms, {title}", cases)
    findings = {"label": label, "models": models}
    if out is not None:
        out.write_text(json.dumps(findings, ensure_ascii=False) + "\n")
        return
    from benchmarks.record import save

    settings = {"seed": 0, "batch": BATCH, "side": SIDE, "channels_last": channels_last}
    save("where_time_goes", {}, findings=findings, steps=ROUNDS, **settings)


if __name__ == "__main__":
    typer.run(main)
