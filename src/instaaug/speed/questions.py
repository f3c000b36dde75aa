"""What ``instaaug bench`` times: the budgets of the design, question by question."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.networks import PreActResNet18
from instaaug.speed.timing import ROUNDS, Tables, Timing, compare
from instaaug.transforms import Composition, Crop, HSVJitter, Rotation, Shear, Transform

__all__ = [
    "QUESTIONS",
    "VIEW_BUDGET",
    "Question",
    "has_kornia",
    "kornia_augmentations",
    "learned_step",
    "plain_step",
    "steps",
    "time_color",
    "time_startup",
    "time_training_steps",
    "time_views",
    "time_warps",
    "views_against_passes",
]


HALF_A_SECOND = "half a second"
CALL_HELP = "import sys; sys.argv = ['instaaug', '--help']; from instaaug.cli import main; main()"
NO_TORCH = "import sys; import instaaug.cli; sys.exit('torch' in sys.modules)"

WARP_SIZES = ((100, 64), (32, 224))

VIEW_BATCH, N_VIEWS = 32, 10
VIEW_BUDGET = 1.02

BATCH, SIDE, CLASSES = 100, 64, 200
RANDOM = "random crops"
LEARNED: Mapping[str, tuple[Transform, ...]] = {
    "learned crops": (Crop(),),
    "learned rotation": (Rotation(),),
    "learned HSV": (HSVJitter(),),
    "learned, all three": (Crop(), Rotation(), HSVJitter()),
}
STEP_BUDGETS = {
    "PreActResNet-18": {"learned crops": 1.05, "learned rotation": 1.05, "learned HSV": 1.10},
    "16 times cheaper": {"learned crops": 1.25, "learned rotation": 1.25, "learned HSV": 1.25},
}
WIDTHS = {"PreActResNet-18": 1.0, "16 times cheaper": 0.25}
Step = Callable[[], None]


def has_kornia() -> bool:
    """Whether kornia is installed, to compare with."""
    return find_spec("kornia") is not None


def kornia_augmentations(side: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Kornia's random crops, rotations and colors, one draw per image; none without kornia."""
    if not has_kornia():
        return {}
    from kornia.augmentation import ColorJiggle, RandomResizedCrop, RandomRotation

    full = (0.0, 2.0)
    return {
        "kornia, random crops": RandomResizedCrop((side, side), scale=(0.16, 1.0), p=1.0),
        "kornia, random rotation": RandomRotation(180.0, p=1.0),
        "kornia, random colors": ColorJiggle(saturation=full, hue=(-0.5, 0.5), p=1.0),
    }


def run_program(program: str) -> None:
    """Run a program in a new interpreter; one that fails is an error."""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def time_startup(rounds: int = ROUNDS) -> Tables:
    """The command's help, beside the least and the most that it could take."""
    run_program(NO_TORCH)
    contenders = {
        HALF_A_SECOND: lambda: time.sleep(0.5),
        "python -c pass": lambda: run_program("pass"),
        "import torch": lambda: run_program("import torch"),
        "instaaug --help": lambda: run_program(CALL_HELP),
    }
    rows = compare(
        contenders, reference=HALF_A_SECOND, budgets={"instaaug --help": 1.0}, rounds=rounds
    )
    return {"start of a process": rows}


def time_color(rounds: int = ROUNDS) -> Tables:
    """Forward, against kornia's conversions; the same values."""
    if not has_kornia():
        return {}
    from kornia.color import hsv_to_rgb, rgb_to_hsv

    torch.manual_seed(0)
    x = torch.rand(100, 3, 64, 64)
    theta = torch.rand(100, 3) + torch.tensor([-0.5, 0.5, 0.5])
    tau = HSVJitter()

    def kornia_route() -> torch.Tensor:
        hue, saturation, value = rgb_to_hsv(x).split(1, dim=1)
        shift, s, v = theta[:, :, None, None, None].unbind(1)
        hue = torch.remainder(hue + shift * 2 * torch.pi, 2 * torch.pi)
        jittered = torch.cat([hue, (saturation * s).clamp(0, 1), (value * v).clamp(0, 1)], dim=1)
        return hsv_to_rgb(jittered)

    torch.testing.assert_close(tau.apply(x, theta), kornia_route(), atol=1e-5, rtol=0)
    contenders = {"kornia rgb→hsv→rgb": kornia_route, "HSVJitter": lambda: tau.apply(x, theta)}
    rows = compare(
        contenders, reference="kornia rgb→hsv→rgb", budgets={"HSVJitter": 0.5}, rounds=rounds
    )
    return {"HSV jitter forward, 100×3×64×64": rows}


def time_crop(batch: int, side: int, rounds: int) -> list[Timing]:
    """One crop per image; both routes give the same values."""
    x = torch.rand(batch, 3, side, side)
    boxes = torch.rand(batch, 4) * 0.5 + torch.tensor([-0.25, -0.25, 0.75, 0.75])
    tau = Crop()
    theta = tau.matrix(boxes)[:, :2]

    def reference() -> torch.Tensor:
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    torch.testing.assert_close(tau.apply(x, boxes), reference(), atol=1e-4, rtol=0)
    contenders = {"affine_grid + grid_sample": reference, "Crop": lambda: tau.apply(x, boxes)}
    return compare(
        contenders, reference="affine_grid + grid_sample", budgets={"Crop": 0.6}, rounds=rounds
    )


def time_composition(batch: int, side: int, rounds: int) -> list[Timing]:
    """Three transforms in one warp, against three warps."""
    import kornia.geometry.transform as kgt

    x = torch.rand(batch, 3, side, side)
    angle = torch.rand(batch, 1) - 0.5
    boxes = torch.tensor([[0.0, 0.0, 1.5, 1.5]]).repeat(batch, 1)
    shear = torch.rand(batch, 2) * 0.3
    fused = Composition((Rotation(), Crop(), Shear()))
    theta = torch.cat([angle, boxes, shear], dim=1)
    corner = side * 0.125
    square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]) * (side * 0.75 - 1)
    corners = (square + corner).expand(batch, 4, 2)
    degrees = torch.rad2deg(angle[:, 0])

    def kornia_three() -> torch.Tensor:
        y = kgt.rotate(x, degrees)
        y = kgt.crop_and_resize(y, corners, (side, side))
        return kgt.shear(y, shear)

    contenders = {
        "kornia, three in sequence": kornia_three,
        "Composition": lambda: fused.apply(x, theta),
    }
    return compare(
        contenders,
        reference="kornia, three in sequence",
        budgets={"Composition": 0.5},
        rounds=rounds,
    )


def time_warps(rounds: int = ROUNDS) -> Tables:
    """Small and large images."""
    torch.manual_seed(0)
    tables = {f"crop, {b}×3×{s}×{s}": time_crop(b, s, rounds) for b, s in WARP_SIZES}
    if has_kornia():
        for b, s in WARP_SIZES:
            title = f"rotation + crop + shear, {b}×3×{s}×{s}"
            tables[title] = time_composition(b, s, rounds)
    return tables


def views_against_passes(
    model: nn.Module,
    x: Tensor,
    n: int,
    *,
    budget: float | None = VIEW_BUDGET,
    rounds: int = ROUNDS,
) -> list[Timing]:
    """``n`` learned crops of each image, against ``n`` plain passes over the images."""
    predictor = InstaAug(Crop()).wrap(model, n).eval()

    def passes() -> None:
        for _ in range(n):
            model(x)

    name, reference = f"TTA, n = {n}", f"{n} plain forward pass{'es' if n > 1 else ''}"
    with torch.no_grad():
        return compare(
            {reference: passes, name: lambda: predictor(x)},
            reference=reference,
            budgets={} if budget is None else {name: budget},
            rounds=rounds,
        )


def time_views(rounds: int = ROUNDS) -> Tables:
    """Ten views at 64 pixels."""
    torch.manual_seed(0)
    model = PreActResNet18(200, stem_stride=2).eval()
    x = torch.rand(VIEW_BATCH, 3, 64, 64)
    return {"test time, 64 px": views_against_passes(model, x, N_VIEWS, rounds=rounds)}


def plain_step(width: float, augment: Callable[[Tensor], Tensor]) -> Step:
    """A step with an augmentation that learns nothing."""
    model, x, y = _setting(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        F.cross_entropy(model(augment(x)), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def learned_step(width: float, transforms: tuple[Transform, ...]) -> Step:
    """A step in which the model and φ learn."""
    model, x, y = _setting(width)
    aug = InstaAug(transforms)
    groups: list[dict[str, Any]] = [
        {"params": model.parameters()},
        {"params": aug.parameters(), "lr": 1e-4},
    ]
    optimizer = torch.optim.SGD(groups, lr=1e-3, momentum=0.9)

    def step() -> None:
        batch = aug(x)
        losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _setting(width: float) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model: nn.Module = PreActResNet18(CLASSES, width=width, stem_stride=2)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.rand(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
    return model, x, torch.randint(CLASSES, (BATCH,))


def _random_crops(x: Tensor) -> Tensor:
    return Crop().apply(x, _random_boxes(len(x)))


def _random_all_three(x: Tensor) -> Tensor:
    n = len(x)
    angle = (torch.rand(n, 1) * 2 - 1) * torch.pi
    hsv = torch.rand(n, 3) * torch.tensor([1.0, 2.0, 2.0]) - torch.tensor([0.5, 0.0, 0.0])
    theta = torch.cat([_random_boxes(n), angle, hsv], dim=1)
    return Composition(LEARNED["learned, all three"]).apply(x, theta)


def _random_boxes(n: int) -> Tensor:
    size = torch.rand(n, 1) * 1.2 + 0.8
    center = (torch.rand(n, 2) * 2 - 1) * (1 - size / 2)
    return torch.cat([center, size, size], dim=1)


def steps(width: float) -> dict[str, Step]:
    """A step of each contender, with a classifier of this width."""
    fixed = {
        RANDOM: _random_crops,
        "no augmentation": lambda x: x,
        "random, all three": _random_all_three,
        **kornia_augmentations(SIDE),
    }
    plain = {name: plain_step(width, augment) for name, augment in fixed.items()}
    return plain | {name: learned_step(width, tau) for name, tau in LEARNED.items()}


def time_steps(title: str, *, rounds: int = ROUNDS) -> list[Timing]:
    """All contenders with one of the two classifiers."""
    return compare(
        steps(WIDTHS[title]), reference=RANDOM, budgets=STEP_BUDGETS[title], rounds=rounds
    )


def time_training_steps(rounds: int = ROUNDS) -> Tables:
    """Both classifiers."""
    return {f"training step, {title}": time_steps(title, rounds=rounds) for title in WIDTHS}


@dataclass(frozen=True)
class Question:
    """Something to time.

    Arguments:
        asked: The question.
        answer: Times it, in so many rounds.
        others: What others need for the same, as far as is known.
    """

    asked: str
    answer: Callable[..., Tables]
    others: str = ""


QUESTIONS = {
    "startup": Question("How fast does the command start?", time_startup),
    "color": Question(
        "How fast is HSV jitter?", time_color, "a plain rgb→hsv→rgb copies the images 63 times"
    ),
    "warp": Question(
        "How fast are a crop and a composition?",
        time_warps,
        "a crop by separable matrix products 0.8 and 1.8",
    ),
    "at_test_time": Question(
        "What does test-time augmentation cost?", time_views, "the authors' code 1.40"
    ),
    "training_step": Question(
        "What does learning cost in a training step?",
        time_training_steps,
        "the authors' code 2.0, their paper 1.67",
    ),
}
