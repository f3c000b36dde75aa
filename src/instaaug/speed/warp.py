"""How fast is one crop, and how fast is a composition?"""

import torch
from torch.nn import functional as F

from instaaug.speed.rivals import has_kornia
from instaaug.speed.timing import ROUNDS, Row, Tables, compare
from instaaug.transforms import Composition, Crop, Rotation, Shear

__all__ = ["main"]

SIZES = ((100, 64), (32, 224))


def crop(batch: int, side: int, rounds: int) -> list[Row]:
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


def composition(batch: int, side: int, rounds: int) -> list[Row]:
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


def main(rounds: int = ROUNDS) -> Tables:
    """Small and large images."""
    torch.manual_seed(0)
    tables = {f"crop, {b}×3×{s}×{s}": crop(b, s, rounds) for b, s in SIZES}
    if has_kornia():
        for b, s in SIZES:
            title = f"rotation + crop + shear, {b}×3×{s}×{s}"
            tables[title] = composition(b, s, rounds)
    return tables
