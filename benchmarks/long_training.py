"""The same question as ``training``, where photos are many and training is long.

All 15,000 training photos of 30 classes of Tiny-ImageNet, of which 1,500 are kept to choose on,
and 100 epochs; the 1,500 official validation photos are the test. One seed: a run takes about 25
minutes of one core.
"""

from benchmarks.training import Regime, run

__all__ = ["main"]

REGIME = Regime(
    "long_training",
    source="benchmarks.training:load_all",
    methods="few_methods.yaml",
    seeds=1,
    options=("--trainer.max_epochs", "100"),
)


def main() -> None:
    """Run what is missing, print the table, write the file."""
    run(REGIME)
