"""The question of ``training`` elsewhere: with more epochs, more photos, larger views.

- ``overfitting``: the same 20 × 100 photos, with four times the epochs. A run takes about five
  minutes of one core, and so does one of the next.
- ``thirty_classes``: half as many classes again and twice the photos, 4,500 others for the test.
- ``long_training``: all 15,000 training photos of 30 classes of Tiny-ImageNet, of which 1,500 are
  kept to choose on, and 100 epochs; the 1,500 official validation photos are the test. A run takes
  about 25 minutes.
- ``large_views``: the same with views of 64 pixels, the photos in full, in bfloat16. A run takes
  25 to 50 minutes.
"""

from dataclasses import replace

from benchmarks.training import LIT_FAMILIES, Regime

__all__ = ["REGIMES"]

OVERFITTING = Regime(
    "overfitting",
    methods="overfitting_methods.yaml",
    seeds=3,
    options=("--trainer.max_epochs", "200"),
    families=LIT_FAMILIES,
)
THIRTY_CLASSES = Regime(
    "thirty_classes",
    methods="few_methods.yaml",
    seeds=2,
    options=("--data.options", "{n_images: 200, n_classes: 30}"),
)
LONG_TRAINING = Regime(
    "long_training",
    source="benchmarks.training:load_all",
    methods="few_methods.yaml",
    seeds=1,
    options=("--trainer.max_epochs", "100"),
)
LARGE_VIEWS = replace(
    LONG_TRAINING,
    name="large_views",
    options=(*LONG_TRAINING.options, "--crop.size", "64", "--trainer.precision", "bf16-mixed"),
)
REGIMES = {r.name: r for r in (OVERFITTING, THIRTY_CLASSES, LONG_TRAINING, LARGE_VIEWS)}
