"""Data sets; none of them knows of augmentation."""
