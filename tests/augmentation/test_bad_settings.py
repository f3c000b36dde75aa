"""Augmenters that cannot be: one test per message, as users see it."""

from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import (
    ArgumentError,
    InstaAugError,
    PathwiseGradientError,
    UnknownNameError,
)
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


@pytest.fixture(autouse=True)
def _as_users_run_it() -> Iterator[None]:
    with unhooked():
        yield


class NotAList(nn.Module):
    @override
    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("transforms", "settings", "error", "message"),
    [
        ([], {}, ArgumentError, r"`transforms` must hold at least one transform: got none"),
        (
            CROP,
            {"entropy": (1.0, 3.0)},
            ArgumentError,
            r"H_max = 3 nats .* at most 1\.61 .*5 equal",
        ),
        (
            [CROP, "flip"],
            {"diversity": (0.3, 0.4)},
            ArgumentError,
            r"at most 0\.4 for 'flip', where a single choice is a share of 0\.5\. Raise the band",
        ),
        (
            CROP,
            {"estimator": "pathwise"},
            PathwiseGradientError,
            r'Use estimator="auto" or "score"',
        ),
        ("rotation", {"estimator": "score"}, ArgumentError, r"would be biased for intervals"),
        (
            [CROP, "flip"],
            {"estimator": "exact"},
            ArgumentError,
            r"one finite factor and nothing else: got 2 factors, 2 of them finite",
        ),
        (
            [CROP, "rotation"],
            {"estimator": "exact"},
            ArgumentError,
            r"got 2 factors, 1 of them finite",
        ),
        ("rotation", {"estimator": "exact"}, ArgumentError, r"got 1 factors, 0 of them finite"),
        (
            T.Crop(jitter=True),
            {"estimator": "exact"},
            ArgumentError,
            r"cannot try every place of a box that moves: got jitter=True\. Use jitter=False",
        ),
        (
            CROP,
            {"estimator": "exact", "baseline": "critic"},
            ArgumentError,
            r'`baseline="critic"` needs .* and samples: got .*estimator="exact"\. Choose "batch"',
        ),
        (
            CROP,
            {"baseline": "value", "conditioning": "none"},
            ArgumentError,
            r'`baseline="value"` needs a network that reads the input.*conditioning="none"',
        ),
        (
            CROP,
            {"baseline": "critic", "conditioning": "class", "num_classes": 2},
            ArgumentError,
            r'`baseline="critic"` needs a network that reads the input.*conditioning="class"',
        ),
        (
            CROP,
            {"conditioning": "class"},
            ArgumentError,
            r'`num_classes` must be at least 1 with conditioning="class": got None',
        ),
        (
            CROP,
            {"conditioning": "class", "num_classes": 0},
            ArgumentError,
            r"`num_classes` must be at least 1 .*got 0",
        ),
        (
            "brightness",
            {"mean": [0.5] * 3},
            ArgumentError,
            r"`mean` and `std` must be given togeth",
        ),
        (
            "brightness",
            {"std": [0.5] * 3},
            ArgumentError,
            r"`mean` and `std` must be given togeth",
        ),
        (
            "brightness",
            {"mean": [0.5] * 2, "std": [0.5] * 2},
            ArgumentError,
            r"must have one number per channel, 3 here, or one for all: got 2 and 2",
        ),
        (
            "brightness",
            {"mean": [0.5] * 3, "std": [0.5, 0.0, 0.5]},
            ArgumentError,
            r"`std` must be above 0 in every channel: got \(0\.5, 0\.0, 0\.5\)",
        ),
        (CROP, {"in_channels": 0}, ArgumentError, r"`in_channels` must be at least 1: got 0"),
        (CROP, {"width": 0.0}, ArgumentError, r"`width` must lie in \(0, 64\]: got 0\.0"),
        (CROP, {"weight": -1.0}, ArgumentError, r"`weight` must lie in \[0, 10\].*got -1\.0"),
        (CROP, {"network": NotAList()}, ArgumentError, r"`network` must return a list of feature"),
    ],
)
def test_augmenters_that_cannot_be(
    transforms: Any, settings: dict[str, Any], error: type[InstaAugError], message: str
) -> None:
    with pytest.raises(error, match=message):
        InstaAug(transforms, **settings)


def test_a_grid_without_boxes_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"`levels` must hold at least one box: got none\. Try"
    ):
        InstaAug(T.Crop(levels=()))


@pytest.mark.parametrize(
    ("transforms", "settings", "message"),
    [
        (
            "rotate",
            {},
            r"no transform called 'rotate'\. Did you mean 'rotation'\? Known: affine, ",
        ),
        (["crop", "flipp"], {}, r"no transform called 'flipp'\. Did you mean 'flip'\?"),
        (
            CROP,
            {"network": "pyramide"},
            r"no network called 'pyramide'\. Did you mean 'pyramid'\?",
        ),
        (CROP, {"baseline": "values"}, r"no baseline called 'values'\. Did you mean 'value'\?"),
        (CROP, {"rule": "pid"}, r"no rule called 'pid'\. Did you mean 'pi'\?"),
        (
            CROP,
            {"padding_mode": "zero"},
            r"no padding_mode called 'zero'\. Did you mean 'zeros'\?",
        ),
        (CROP, {"estimator": "exakt"}, r"no estimator called 'exakt'\. Did you mean 'exact'\?"),
        (CROP, {"conditioning": "inputs"}, r"no conditioning called 'inputs'\. .*'input'\?"),
        (CROP, {"entropy": {"corp": (1.0, 1.2)}}, r"no factor called 'corp'\. .*'crop'\?"),
    ],
)
def test_unknown_names_come_with_a_suggestion(
    transforms: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnknownNameError, match=message):
        InstaAug(transforms, **settings)
