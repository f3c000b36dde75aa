"""The same question as ``training``, of photos from shops: 81 kinds of groceries, from scratch.

At most 16 training photos of each, many of one shelf; views of 64 pixels cut from 128. Test photos
are from other days. So validation photos are held out by likeness: of photos at random nine of ten
would be right. Both random and learned crops have three ranges of sizes to choose from.

Needs INSTAAUG_DATA, a folder with ``groceries-81``; a run takes about two minutes of one core.
"""

import os
from pathlib import Path

from benchmarks.training import FAMILIES, Regime, run

__all__ = ["main"]

NOTE = (
    "a fifth of the training photos, those that look alike together, choose the range of sizes, "
    "how views are merged, and teach φ; the test photos are the same for all seeds"
)
LEARNED = ("usefulness-0.25", "usefulness-0.35", "usefulness-0.5")


def main() -> None:
    """Run what is missing, print the table, write the file."""
    photos = Path(os.environ.get("INSTAAUG_DATA", "")).resolve() / "groceries-81"
    families = {**FAMILIES, "usefulness, chosen": LEARNED}
    configs = Path("configs") / "groceries"
    run(Regime("groceries", str(photos), configs, note=NOTE, families=families))
