"""The other methods, all augmenters: whatever trains or tests InstaAug trains and tests them."""

from instaaug.methods.none import NoAugmentation
from instaaug.methods.random import RandomAugmentation

__all__ = ["NoAugmentation", "RandomAugmentation"]
