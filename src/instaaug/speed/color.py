"""How fast is HSV jitter?"""

import torch

from instaaug.speed.rivals import has_kornia
from instaaug.speed.timing import ROUNDS, Tables, compare
from instaaug.transforms import HSVJitter

__all__ = ["main"]


def main(rounds: int = ROUNDS) -> Tables:
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
