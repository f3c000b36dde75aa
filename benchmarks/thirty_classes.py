"""The same question as ``training``, with half as many classes again and twice the photos.

30 classes of Tiny-ImageNet with 200 photos each, 4,500 others for the test. Two seeds; a run
takes about five minutes of one core.
"""

from benchmarks.training import Regime, run

__all__ = ["main"]

REGIME = Regime(
    "thirty_classes",
    methods="few_methods.yaml",
    seeds=2,
    options=("--data.options", "{n_images: 200, n_classes: 30}"),
)


def main() -> None:
    """Run what is missing, print the table, write the file."""
    run(REGIME)
