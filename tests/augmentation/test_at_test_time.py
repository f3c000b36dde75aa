"""Test-time augmentation against a naive loop."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation.at_test_time import Merge, TestTimeAugmentation
from instaaug.augmentation.views import Select
from instaaug.errors import ArgumentError, InstaAugWarning, ShapeError, UnknownNameError
from tests.support.models import CountingNetwork, images, small_classifier
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 4)))
N_BOXES = 17
CHUNKS = pytest.mark.parametrize("chunk_size", [1, 7, None])


class Returns(nn.Module):
    """A model that returns what a function makes of the images."""

    def __init__(self, function: str) -> None:
        super().__init__()
        self.function = function

    @override
    def forward(self, x: Tensor) -> object:
        flat = x.flatten(1)
        return {
            "features": flat[:, :6].tanh(),
            "column": flat.mean(dim=1, keepdim=True),
            "row": flat.mean(dim=1),
            "maps": x,
            "scalar": flat.mean(),
            "dict": {"scores": flat, "features": flat},
            "none": None,
            "nested": ([flat], flat),
            "one_for_all": flat.mean(dim=0, keepdim=True),
        }[self.function]


@pytest.fixture
def _unhooked() -> Iterator[None]:
    with unhooked():
        yield


def predictor(
    model: nn.Module | None = None,
    n_samples: int = 5,
    *,
    merge: Merge = "logit",
    select: Select = "sample",
    replace: bool = False,
    chunk_size: int | None = None,
) -> TestTimeAugmentation:
    torch.manual_seed(0)
    aug = InstaAug([CROP, T.Rotation(0.5)])
    return aug.wrap(
        model or small_classifier().eval(),
        n_samples,
        merge=merge,
        select=select,
        replace=replace,
        chunk_size=chunk_size,
    ).eval()


def learned(tta: TestTimeAugmentation) -> InstaAug:
    assert isinstance(tta.augmenter, InstaAug)
    return tta.augmenter


def naive_outputs(tta: TestTimeAugmentation, x: Tensor, theta: Tensor) -> Tensor:
    """Outputs of every sample of every input, one image at a time: (n, B, ...)."""
    rows = [
        [
            tta.model(learned(tta).transform.apply(x[i : i + 1], theta[j, i : i + 1]))[0]
            for i in range(len(x))
        ]
        for j in range(len(theta))
    ]
    return torch.stack([torch.stack(row) for row in rows])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


# --- what comes out -----------------------------------------------------------------------------


@CHUNKS
@pytest.mark.parametrize("select", ["sample", "top"])
def test_the_mean_logit_is_that_of_a_naive_loop(select: Select, chunk_size: int | None) -> None:
    x = images(5)
    tta = predictor(select=select, chunk_size=chunk_size)
    naive = naive_outputs(tta, x, tta.samples(x, seeded())).mean(dim=0)
    torch.testing.assert_close(tta(x, seeded()), naive, atol=1e-5, rtol=1e-5)


@CHUNKS
def test_merged_probabilities_are_the_log_of_the_mean_softmax(chunk_size: int | None) -> None:
    x = images(5)
    tta = predictor(merge="probability", chunk_size=chunk_size)
    naive = naive_outputs(tta, x, tta.samples(x, seeded())).softmax(dim=-1).mean(dim=0).log()
    result = tta(x, seeded())
    torch.testing.assert_close(result, naive, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result.exp().sum(dim=1), torch.ones(5))


def test_a_probability_too_small_for_a_float_still_has_a_logarithm() -> None:
    """Softmax of (0, 300) is exactly (0, 1) in single precision; the likelihood would be lost."""
    linear = nn.Linear(3 * 16 * 16, 2)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.copy_(torch.tensor([0.0, 300.0]))
    result = predictor(nn.Sequential(nn.Flatten(), linear), merge="probability")(images(2))
    torch.testing.assert_close(result, torch.tensor([[-300.0, 0.0]] * 2))


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("features", (4, 6)), ("column", (4, 1)), ("row", (4,)), ("maps", (4, 3, 16, 16))],
)
def test_outputs_of_any_shape_are_averaged(kind: str, shape: tuple[int, ...]) -> None:
    x = images(4)
    tta = predictor(Returns(kind), chunk_size=3)
    result = tta(x, seeded())
    assert result.shape == shape
    naive = naive_outputs(tta, x, tta.samples(x, seeded())).mean(dim=0)
    torch.testing.assert_close(result, naive, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("n_samples", [1, 4, N_BOXES, N_BOXES + 3, 50])
@pytest.mark.parametrize("select", ["sample", "top"])
def test_any_number_of_samples_works(n_samples: int, select: Select) -> None:
    x = images(2)
    tta = predictor(n_samples=n_samples, select=select)
    assert tta.samples(x).shape == (n_samples, 2, 5)
    assert tta(x).isfinite().all()


def test_one_sample_of_the_whole_image_is_the_plain_model() -> None:
    model, x = small_classifier().eval(), images(3)
    tta = InstaAug(T.Crop(levels=((1.0, 1),))).wrap(model, 1)
    torch.testing.assert_close(tta(x), model(x))


def test_gradients_reach_the_model() -> None:
    tta = predictor()
    tta(images(2)).sum().backward()
    assert all(p.grad is not None for p in tta.model.parameters())


# --- which samples ------------------------------------------------------------------------------


def chosen_boxes(tta: TestTimeAugmentation, x: Tensor) -> list[list[tuple[float, ...]]]:
    theta = tta.samples(x)[..., :4]
    return [[tuple(box) for box in theta[:, i].tolist()] for i in range(len(x))]


@pytest.mark.parametrize("n_samples", [5, N_BOXES - 1])
def test_without_replacement_all_boxes_are_distinct(n_samples: int) -> None:
    for boxes in chosen_boxes(predictor(n_samples=n_samples), images(6)):
        assert len(set(boxes)) == n_samples


def test_from_as_many_samples_as_boxes_on_each_comes_as_often_as_it_is_likely() -> None:
    tta, x = predictor(n_samples=N_BOXES + 4), images(6)
    expected = (N_BOXES + 4) * learned(tta).distribution(x).finite()[
        "crop"
    ].probs.detach().sort().values
    for boxes, shares in zip(chosen_boxes(tta, x), expected, strict=True):
        counts = sorted(boxes.count(box) for box in set(boxes))
        assert abs(counts[-1] - float(shares[-1])) < 1


def test_with_replacement_some_boxes_come_twice() -> None:
    """Seventeen draws from seventeen boxes are all distinct with probability below 1e-6."""
    for boxes in chosen_boxes(predictor(n_samples=N_BOXES, replace=True), images(6)):
        assert len(set(boxes)) < N_BOXES


def test_top_takes_the_most_probable_boxes_and_no_chance() -> None:
    x = images(4)
    tta = predictor(select="top")
    assert torch.equal(tta(x), tta(x))
    crop = learned(tta).distribution(x).finite()["crop"]
    best = crop.logits.argsort(dim=-1, descending=True)[:, :5]
    torch.testing.assert_close(tta.samples(x)[..., :4], crop.table[best].transpose(0, 1))


def test_top_spreads_angles_evenly_over_their_range() -> None:
    x = images(2)
    tta = InstaAug(T.Rotation()).wrap(small_classifier().eval(), 4, select="top")
    angle = learned(tta).distribution(x)["rotation"]
    low, high = (getattr(angle, end) for end in ("low", "high"))
    expected = [low + (high - low) * (2 * i + 1) / 8 for i in range(4)]
    torch.testing.assert_close(tta.samples(x), torch.stack(expected))


def test_a_seeded_generator_makes_the_prediction_repeatable() -> None:
    tta, x = predictor(), images(3)
    assert torch.equal(tta(x, seeded()), tta(x, seeded()))
    assert not torch.equal(tta(x, seeded()), tta(x, torch.Generator().manual_seed(4)))


# --- what it costs and what it leaves alone -----------------------------------------------------


@CHUNKS
def test_phi_sees_every_input_once(chunk_size: int | None) -> None:
    network = CountingNetwork()
    aug = InstaAug(CROP, network=network)
    network.n_seen = 0
    aug.wrap(small_classifier().eval(), 10, chunk_size=chunk_size)(images(5))
    assert network.n_seen == 5


@pytest.mark.parametrize(
    ("chunk_size", "largest"), [(1, 1), (3, 3), (8, 8), (1000, 50), (None, 32)]
)
def test_the_model_never_sees_more_than_a_chunk(chunk_size: int | None, largest: int) -> None:
    sizes: list[int] = []
    model = small_classifier().eval()
    model.register_forward_hook(lambda _m, inputs, _out: sizes.append(len(inputs[0])))
    predictor(model, n_samples=10, chunk_size=chunk_size)(images(5))
    assert max(sizes) <= largest
    assert sum(sizes) == 50


@pytest.mark.parametrize("training", [True, False])
def test_wrapping_leaves_the_mode_of_the_model_alone(training: bool) -> None:
    model = small_classifier().train(training)
    tta = InstaAug(CROP).wrap(model, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InstaAugWarning)
        tta(images(2))
    assert model.training is training
    assert all(m.training is training for m in model.modules())


def test_an_evaluated_model_keeps_every_byte_of_its_state() -> None:
    tta = predictor()
    before = copy.deepcopy(tta.state_dict())
    tta(images(4))
    after = tta.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_eval_reaches_both_the_model_and_the_augmenter() -> None:
    aug, model = InstaAug(CROP, conditioning="class", num_classes=3), small_classifier()
    tta = aug.wrap(model, 3).eval()
    assert not aug.training
    assert not model.training
    assert tta(images(2)).shape == (2, 3)  # random crops, where the class is not known


@pytest.mark.parametrize("select", ["sample", "top"])
@pytest.mark.parametrize("jitter", [False, True])
def test_where_the_class_is_unknown_crops_are_random(select: Select, jitter: bool) -> None:
    """As in the paper: not boxes of the grid, of which most are small and cross the edges."""
    aug = InstaAug(T.Crop(jitter=jitter), conditioning="class", num_classes=3).eval()
    n = 4000
    boxes = aug.draw(images(1), n, select=select, generator=torch.Generator().manual_seed(0))[:, 0]
    center, side = boxes[:, :2], boxes[:, 2] / 2
    assert torch.equal(boxes[:, 2], boxes[:, 3])
    assert (center.abs() <= 1 - side[:, None] + 1e-6).all()
    shares = torch.cat([(side[:, None] - 0.25) / 0.75, (center / (1 - side[:, None]) + 1) / 2], 1)
    for share in shares.T:
        counts = torch.histc(share, bins=10, min=0, max=1)
        assert (counts - n / 10).abs().max() < 5 * (n * 0.1 * 0.9) ** 0.5
    assert (torch.corrcoef(shares.T) - torch.eye(3)).abs().max() < 5 / n**0.5


def test_where_the_class_is_unknown_the_original_can_come_first() -> None:
    settings: Any = {"conditioning": "class", "num_classes": 3, "keep_original": True}
    theta = InstaAug(CROP, **settings).eval().draw(images(2), 4)
    whole = torch.tensor([0.0, 0.0, 2.0, 2.0])
    assert (theta[0] == whole).all()
    assert (theta[1:] != whole).any(dim=-1).all()


def test_predicting_does_not_move_the_weight() -> None:
    tta = predictor()
    learned(tta).train()
    before = learned(tta).band.weight.clone()
    tta(images(3))
    assert torch.equal(learned(tta).band.weight, before)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "got"),
    [
        ("scalar", r"\(\)"),
        ("dict", "dict"),
        ("none", "NoneType"),
        ("nested", "tuple"),
        ("one_for_all", r"\(1, 768\)"),
    ],
)
def test_a_model_without_a_row_per_input_is_refused(kind: str, got: str) -> None:
    message = (
        rf"`model` must return a tensor with one row per input, 15 here: got {got}\. "
        r'Pick the tensor with output=, such as output=lambda o: o\["logits"\]\.'
    )
    with pytest.raises(ShapeError, match=message):
        predictor(Returns(kind))(images(3))


@pytest.mark.parametrize(("kind", "got"), [("row", r"\(15,\)"), ("column", r"\(15, 1\)")])
def test_probabilities_of_something_without_classes_are_refused(kind: str, got: str) -> None:
    message = rf'`model` must return a logit per class.*merge="probability": got {got}\. Use'
    with pytest.raises(ShapeError, match=message):
        predictor(Returns(kind), merge="probability")(images(3))


@pytest.mark.parametrize(("kind", "got"), [("features", "str"), ("scalar", r"\(\)")])
def test_an_output_that_picks_no_row_per_input_is_refused(kind: str, got: str) -> None:
    pick = {"features": lambda _: "logits", "scalar": lambda o: o}[kind]
    with pytest.raises(ShapeError, match=rf"`output` must pick a tensor with .* got {got}\. Pick"):
        InstaAug(CROP).wrap(Returns(kind), 5, output=pick)(images(3))


@pytest.mark.parametrize("n_samples", [0, -1])
def test_no_samples_are_refused(n_samples: int) -> None:
    with pytest.raises(ArgumentError, match=rf"`n_samples` must be at least 1: got {n_samples}\."):
        predictor(n_samples=n_samples)


def test_more_samples_than_anyone_wants_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`n_samples` must be at most 100,000: got 10{20}\."):
        predictor(n_samples=10**20)


@pytest.mark.parametrize("chunk_size", [0, -4])
def test_an_empty_chunk_is_refused(chunk_size: int) -> None:
    with pytest.raises(ArgumentError, match=rf"`chunk_size` must be at least 1: got {chunk_size}"):
        predictor(chunk_size=chunk_size)


@pytest.mark.usefixtures("_unhooked")
def test_an_unknown_merge_rule_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"no merge rule called 'logits'\. .*'logit'\?"):
        predictor(merge="logits")  # type: ignore[arg-type]


@pytest.mark.usefixtures("_unhooked")
def test_an_unknown_selection_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"no selection called 'samples'\. .*'sample'\?"):
        predictor(select="samples")  # type: ignore[arg-type]


def test_inputs_are_checked_as_in_training() -> None:
    with pytest.raises(ShapeError, match="`x` must have 3 channels: got 1"):
        predictor()(images(2, channels=1))


@pytest.mark.parametrize(("side", "rows"), [(16, 32), (112, 32), (224, 8), (700, 1)])
def test_chunks_of_large_images_have_fewer_rows(side: int, rows: int) -> None:
    seen: list[int] = []

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return x.mean(dim=(2, 3))

    InstaAug(T.Crop()).wrap(Model(), 20).eval()(torch.rand(2, 3, side, side))
    assert max(seen) == rows
    assert sum(seen) == 40
