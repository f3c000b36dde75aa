"""Which views are chosen, and the settings `size`, `keep_original` and `select`."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation.views import Select, Views, choose_views, without_row
from instaaug.distributions import CategoricalTheta, Joint, UniformBox
from instaaug.errors import ArgumentError, UnknownNameError, WeightsFileError
from instaaug.networks import FrozenFeatures
from tests.support.frozen_models import built
from tests.support.models import images
from tests.support.operators import Counter
from tests.support.unhooked import unhooked

WHOLE = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
BOXES = torch.cat([torch.rand(3, 4, generator=torch.Generator().manual_seed(0)), WHOLE,
                   torch.rand(2, 4, generator=torch.Generator().manual_seed(1))])  # fmt: skip
LOGITS = torch.tensor([[0.1, 0.5, 0.3, 9.0, 0.2, 0.4], [0.5, 0.1, 0.2, -9.0, 0.4, 0.3]])
SIGNS = torch.tensor([[1.0], [-1.0]])


def crops(logits: Tensor = LOGITS, table: Tensor = BOXES) -> Joint:
    return Joint({"crop": CategoricalTheta(logits, table)})


def rows_of(views: Views, table: Tensor = BOXES) -> list[list[int]]:
    """For each input, the numbers of the rows that its views stand for."""
    same = (views.theta[:, :, None] == table).all(dim=-1)
    assert bool((same.sum(dim=-1) == 1).all())
    return same.int().argmax(dim=-1).T.tolist()


def test_the_original_comes_first_and_the_best_others_follow_in_order() -> None:
    views = choose_views(crops(), 6, select="top", original=WHOLE)
    assert rows_of(views) == [[3, 1, 5, 2, 4, 0], [3, 0, 4, 5, 2, 1]]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_fewer_views_are_the_first_of_more(n: int) -> None:
    few = choose_views(crops(), n, select="top", original=WHOLE)
    many = choose_views(crops(), 6, select="top", original=WHOLE)
    assert torch.equal(few.theta, many.theta[:n])


def test_beyond_the_last_view_they_start_again_with_the_best() -> None:
    views = choose_views(crops(), 9, select="top", original=WHOLE)
    assert rows_of(views)[0] == [3, 1, 5, 2, 4, 0, 1, 5, 2]


def test_weights_are_the_probabilities_among_the_others() -> None:
    views = choose_views(crops(), 3, select="top", original=WHOLE)
    others = LOGITS[:, [0, 1, 2, 4, 5]].softmax(dim=1)
    best = others.sort(dim=1, descending=True).values
    assert views.weight is not None
    torch.testing.assert_close(views.weight[1:].T, best[:, :2])
    torch.testing.assert_close(views.weight[0], best[:, 0])


def test_draws_without_replacement_are_distinct_and_follow_the_probabilities() -> None:
    """20,000 inputs: a share is off by five standard errors with probability 6e-7 each."""
    n = 20_000
    joint = crops(LOGITS[:1].expand(n, -1))
    generator = torch.Generator().manual_seed(0)
    views = choose_views(joint, 3, original=WHOLE, generator=generator)
    drawn = torch.tensor(rows_of(views))
    assert bool((drawn[:, 0] == 3).all())
    assert bool((drawn.sort(dim=1).values.diff(dim=1) > 0).all())
    p = torch.zeros(6).index_copy(
        0, torch.tensor([0, 1, 2, 4, 5]), LOGITS[0, [0, 1, 2, 4, 5]].softmax(0)
    )
    share = torch.bincount(drawn[:, 1], minlength=6) / n
    error = (p * (1 - p) / n).sqrt()
    assert bool(((share - p).abs() <= 5 * error).all())


def test_draws_are_repeatable() -> None:
    draws = [
        choose_views(crops(), 4, original=WHOLE, generator=torch.Generator().manual_seed(3)).theta
        for _ in range(2)
    ]
    assert torch.equal(*draws)


@pytest.mark.parametrize("select", ["sample", "top"])
def test_flips_of_the_whole_image_count_as_other_views(select: Select) -> None:
    joint = Joint({
        "crop": CategoricalTheta(LOGITS, BOXES),
        "flip": CategoricalTheta(torch.zeros(2, 2), SIGNS),
    })  # fmt: skip
    original = torch.cat([WHOLE, SIGNS[:1]], dim=1)
    views = choose_views(joint, 12, select=select, original=original)
    assert torch.equal(views.theta[0], original.expand(2, -1))
    if select == "top":
        assert all(len(views.theta[:, i].unique(dim=0)) == 12 for i in range(2))
        assert torch.equal(views.theta[1, 0], torch.cat([WHOLE, SIGNS[1:]], dim=1)[0])


@pytest.mark.parametrize("select", ["sample", "top"])
@pytest.mark.parametrize("n", [1, 4])
def test_where_there_is_nothing_else_the_original_is_repeated(select: Select, n: int) -> None:
    joint = crops(torch.zeros(2, 1), WHOLE)
    views = choose_views(joint, n, select=select, original=WHOLE)
    assert torch.equal(views.theta, WHOLE.expand(n, 2, 4))
    assert views.weight is not None
    assert torch.equal(views.weight, torch.ones(n, 2))


@pytest.mark.parametrize("select", ["sample", "top"])
def test_ranges_follow_the_original(select: Select) -> None:
    joint = Joint({"turn": UniformBox(torch.full((2, 1), -1.0), torch.ones(2, 1))})
    zero = torch.zeros(1, 1)
    generator = torch.Generator().manual_seed(0)
    views = choose_views(joint, 5, select=select, original=zero, generator=generator)
    assert views.theta.shape == (5, 2, 1)
    assert not views.theta[0].any()
    assert len(views.theta[1:, 0].unique()) == 4


@pytest.mark.parametrize("select", ["sample", "top"])
def test_without_an_original_the_whole_image_has_no_privilege(select: Select) -> None:
    generator = torch.Generator().manual_seed(0)
    views = choose_views(crops(), 2, select=select, generator=generator)
    assert rows_of(views)[1][0] != 3


def test_a_row_that_is_left_out_takes_its_probability_along() -> None:
    left = without_row(CategoricalTheta(LOGITS, BOXES), WHOLE)
    keep = [0, 1, 2, 4, 5]
    assert torch.equal(left.table, BOXES[keep])
    torch.testing.assert_close(left.probs, LOGITS[:, keep].softmax(dim=1))
    absent = without_row(left, WHOLE)
    assert torch.equal(absent.table, left.table)


def test_the_cost_does_not_grow_with_the_number_of_inputs() -> None:
    """As many operators for 2 inputs as for 200: nothing goes through them one by one."""
    counts = []
    for batch in (2, 200):
        joint = crops(torch.zeros(batch, 6))
        with Counter() as counter:
            choose_views(joint, 4, select="top", original=WHOLE)
        counts.append(counter.total)
    assert counts[0] == counts[1]


CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))
HOSTILE = [
    "32", "big", 0, -1, 1e9, 10**9, 2.5, True, [], [32], [32, 32, 32], [32, "x"], [32, None],
    [32, -3], [0, 32], [float("nan"), 32], [float("inf"), 32], [[32], [32]], {"a": 1, "b": 2},
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aug.safetensors"


def rewritten(path: Path, change: Any) -> None:
    """Change the settings of a weights file, and nothing else."""
    with safe_open(path, framework="pt") as file:
        metadata, names = file.metadata(), file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    settings = json.loads(metadata["settings"])
    change(settings)
    save_file(tensors, path, {**metadata, "settings": json.dumps(settings)})


# --- size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"), [(24, (24, 24)), ((20, 28), (20, 28)), (None, (32, 40))]
)
def test_views_and_what_phi_reads_have_the_size_that_was_asked_for(
    size: Any, expected: tuple[int, int]
) -> None:
    aug = InstaAug([CROP, T.Brightness()], size=size, keep_original=True)
    x = images(3, height=32, width=40)
    assert aug(x, 2).inputs.shape == (6, 3, *expected)
    theta = aug.draw(x, 2, select="top")
    assert aug.render(x, theta[1]).shape == (3, 3, *expected)
    seen: list[torch.Size] = []
    assert aug.phi.network is not None
    aug.phi.network.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape))
    aug.distribution(x)
    assert seen == [(3, 3, *expected)]


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("size", [24, 50])
def test_view_0_is_what_phi_reads_to_the_last_bit(padding_mode: Any, size: int) -> None:
    """Also where the image grows, and pixels at the border look beyond it."""
    aug = InstaAug([CROP, T.Flip()], size=size, keep_original=True, padding_mode=padding_mode)
    x = images(3, height=32, width=40)
    theta = aug.draw(x, 2, select="top")[0]
    assert torch.equal(aug.render(x, theta), aug.transform.resize(x, padding_mode=padding_mode))


@pytest.mark.parametrize("size", HOSTILE, ids=str)
def test_a_size_that_is_none_is_refused_at_the_door(size: Any) -> None:
    with unhooked(), pytest.raises(ArgumentError, match="`size` must be a height and a width"):
        InstaAug(CROP, size=size)


@pytest.mark.parametrize("size", HOSTILE, ids=str)
def test_a_weights_file_with_a_hostile_size_is_refused(size: Any, path: Path) -> None:
    InstaAug(CROP, size=32).save(path)
    rewritten(path, lambda settings: settings["transform"].update(size=size))
    with unhooked(), pytest.raises(WeightsFileError, match="settings that make no augmenter"):
        InstaAug.load(path)


# --- keep_original and select -------------------------------------------------------------------


@pytest.mark.parametrize("transforms", [[CROP], [CROP, "flip"], ["rotation"], [CROP, "rotation"]])
def test_the_first_view_is_the_input_as_it_is(transforms: list[Any]) -> None:
    aug = InstaAug(transforms, keep_original=True)
    x = images(3)
    for select in ("sample", "top"):
        theta = aug.draw(x, 3, select=select)
        assert torch.equal(aug.render(x, theta[0]), x)
        assert not torch.equal(aug.render(x, theta[1]), x)


def test_wrap_chooses_as_the_augmenter_prefers_unless_it_is_told() -> None:
    model = built("class map")
    aug = InstaAug(CROP, select="top")
    assert aug.wrap(model).select == "top"
    assert aug.wrap(model, select="sample").select == "sample"
    assert InstaAug(CROP).wrap(model).select == "sample"


def test_values_that_make_no_sense_are_refused() -> None:
    with unhooked():
        wrong: Any = "yes"
        with pytest.raises(
            ArgumentError, match="`keep_original` must be True or False: got 'yes'"
        ):
            InstaAug(CROP, keep_original=wrong)
        with pytest.raises(UnknownNameError, match="There is no select called 'yes'"):
            InstaAug(CROP, select=wrong)


@pytest.mark.parametrize(
    "change",
    [{"keep_original": "yes"}, {"keep_original": 1}, {"select": "best"}, {"select": ["top"]},
     {"select": None}],
    ids=str,
)  # fmt: skip
def test_a_weights_file_with_other_values_is_refused(change: dict[str, Any], path: Path) -> None:
    InstaAug(CROP).save(path)
    rewritten(path, lambda settings: settings.update(change))
    with unhooked(), pytest.raises(WeightsFileError, match="settings that make no augmenter"):
        InstaAug.load(path)


# --- files --------------------------------------------------------------------------------------


def test_the_settings_survive_a_file(path: Path) -> None:
    aug = InstaAug(CROP, size=(24, 20), keep_original=True, select="top")
    aug.save(path)
    again = InstaAug.load(path)
    assert again.settings == aug.settings
    assert again.transform.size == (24, 20)
    assert again.wrap(built("class map")).select == "top"


def test_a_file_from_before_these_settings_is_read_as_it_was_meant(path: Path) -> None:
    aug = InstaAug([CROP, "rotation"])
    aug.save(path)

    def older(settings: dict[str, Any]) -> None:
        del settings["keep_original"], settings["select"], settings["transform"]["size"]

    rewritten(path, older)
    again = InstaAug.load(path)
    assert again.settings == aug.settings
    x = images(3)
    theta = [a.draw(x, 4, generator=torch.Generator().manual_seed(0)) for a in (aug, again)]
    assert torch.equal(*theta)


def test_the_model_that_phi_reads_is_not_in_the_file(path: Path) -> None:
    model = built("functional ReLU")
    aug = InstaAug(CROP, network=FrozenFeatures(model, size=32), keep_original=True, select="top")
    aug.save(path)
    with safe_open(path, framework="pt") as file:
        names = set(file.keys())
    assert {n for n in names if n.startswith("phi.network")} == {
        f"phi.network.{n}" for n in ("mean", "std", "mix.weight", "mix.bias")
    }
    torch.manual_seed(1)
    again = InstaAug.load(path, network=FrozenFeatures(model, size=32))
    x = images(3, height=32, width=32)
    assert torch.equal(again.wrap(model, 3).eval()(x), aug.wrap(model, 3).eval()(x))
    with pytest.raises(ArgumentError, match="`model` must be given"):
        InstaAug.load(path)
    with pytest.raises(ArgumentError, match="`size` must be given"):
        InstaAug.load(path, model=model)
    again = InstaAug.load(path, model=model, size=32)
    assert torch.equal(again.wrap(model, 3).eval()(x), aug.wrap(model, 3).eval()(x))


def test_phi_goes_over_to_another_model(path: Path) -> None:
    """Class evidence is twelve numbers for every model, whatever its map."""
    InstaAug(CROP, network=FrozenFeatures(built("class token"), size=32)).save(path)
    other = built("class map")
    again = InstaAug.load(path, network=FrozenFeatures(other, size=32))
    assert again.wrap(other, 2).eval()(images(2, height=32, width=32)).shape == (2, 5)
    with pytest.raises(WeightsFileError, match="does not fit its own settings"):
        InstaAug.load(path, network=FrozenFeatures(built("flattened"), size=32))
