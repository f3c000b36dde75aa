"""Settings that only contrastive learning has, typed as ``temperature=0.1, gray=0.2``."""

from dataclasses import dataclass

from instaaug.runs.method_options import method_options

__all__ = ["ContrastiveOptions", "read_contrast"]


@dataclass(frozen=True)
class ContrastiveOptions:
    """The loss, the projection head, and the fixed transforms after the augmenter.

    Arguments:
        temperature: Divides the cosines of projections.
        hidden: Width of the projection head.
        n_projected: Length of a projection.
        strength: Of the color jitter; 1 is SimCLR's.
        jitter: Probability of color jitter.
        gray: Probability of a gray picture.
        blur: Probability of blur.
        mirror: Probability that a view is mirrored.
    """

    temperature: float = 0.5
    hidden: int = 1024
    n_projected: int = 128
    strength: float = 0.5
    jitter: float = 0.8
    gray: float = 0.1
    blur: float = 0.0
    mirror: float = 0.5


def read_contrast(text: str) -> ContrastiveOptions:
    """Options from text.

    Example:
        >>> read_contrast("temperature=0.1, hidden=256").temperature
        0.1
    """
    return ContrastiveOptions(**method_options(text, ContrastiveOptions))
