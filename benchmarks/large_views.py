"""The same question as ``long_training``, with photos in full: views of 64 pixels.

All 15,000 training photos of 30 classes of Tiny-ImageNet, 100 epochs in bfloat16, with the same
model, which now sees maps of twice the side. One seed: a run takes 25 to 40 minutes of one core.
"""

from dataclasses import replace

from benchmarks.long_training import REGIME as AT_32_PIXELS
from benchmarks.training import run

__all__ = ["main"]

REGIME = replace(
    AT_32_PIXELS,
    name="large_views",
    options=(
        *AT_32_PIXELS.options,
        *("--crop.size", "64", "--trainer.precision", "bf16-mixed"),
    ),
)


def main() -> None:
    """Run what is missing, print the table, write the file."""
    run(REGIME)
