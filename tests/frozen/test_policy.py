"""Static policies: the right rows, the right order, and files that are taken on no trust."""

import json
from math import pi
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import ArgumentError, DataError, UnknownNameError
from instaaug.frozen.policy import StaticPolicy, average_policy
from instaaug.networks import FrozenFeatures
from instaaug.transforms import Composition
from tests.support.models import OwnNetwork, images, small_classifier
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))
HALVES = ((0.0, 0.0, 2.0, 2.0), (-0.5, 0.0, 1.0, 2.0), (0.5, 0.0, 1.0, 2.0))


def augmenter(*transforms: T.Transform, **settings: Any) -> InstaAug:
    torch.manual_seed(0)
    aug = InstaAug(list(transforms), network=OwnNetwork(), **settings)
    for p in aug.phi.heads.parameters():  # heads start nearly blind; let the input decide
        p.data += torch.randn_like(p)
    return aug.requires_grad_(requires_grad=False)


def halves(**changes: Any) -> StaticPolicy:
    settings = {
        "theta": HALVES,
        "probabilities": (0.5, 0.3, 0.1),
        "transform": Composition((CROP,)),
    }
    return StaticPolicy(**(settings | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 3, 5])
def test_the_rows_are_those_of_the_largest_mean_probability(n: int) -> None:
    aug, x = augmenter(CROP), images(7)
    policy = average_policy(aug, [x[:4], (x[4:], "labels")], n)
    crop = aug.eval().distribution(x).finite()["crop"]
    means = [float(crop.probs[:, k].mean()) for k in range(5)]
    order = sorted(range(5), key=lambda k: -means[k])[:n]
    assert policy.theta == tuple(tuple(crop.table[k].tolist()) for k in order)
    assert policy.probabilities == pytest.approx([means[k] for k in order], abs=1e-6)
    assert policy.n == n
    assert (policy.transform, policy.padding_mode) == (aug.transform, "zeros")


def test_several_factors_multiply_for_each_input() -> None:
    """The mean of the products, which is not the product of the means."""
    aug, x = augmenter(CROP, T.Flip(), padding_mode="border"), images(6)
    policy = average_policy(aug, [x], 10)
    crop, flip = aug.eval().distribution(x).finite().values()
    products: dict[tuple[float, ...], float] = {}
    for i in range(2):
        for k in range(5):
            row = (*crop.table[k].tolist(), *flip.table[i].tolist())
            products[row] = float((flip.probs[:, i] * crop.probs[:, k]).mean())
    ranking = sorted(products.items(), key=lambda item: -item[1])
    assert policy.theta == tuple(row for row, _ in ranking)
    assert policy.probabilities == pytest.approx([p for _, p in ranking], abs=1e-6)
    assert sum(policy.probabilities) == pytest.approx(1)
    marginal = flip.probs.mean(dim=0)[:, None] * crop.probs.mean(dim=0)
    apart = torch.tensor(policy.probabilities) - marginal.flatten().sort(descending=True).values
    assert apart.abs().max() > 1e-4
    assert policy.padding_mode == "border"


def test_three_factors_multiply_too() -> None:
    aug, x = augmenter(CROP, T.Flip(), T.Flip(vertical=True)), images(3)
    policy = average_policy(aug, [x], 1)
    factors = aug.eval().distribution(x).finite().values()
    one, two, three = (factor.probs for factor in factors)
    joint = torch.einsum("bi,bj,bk->ijk", one, two, three) / 3
    assert policy.probabilities[0] == pytest.approx(float(joint.max()), rel=1e-5)
    best = torch.unravel_index(joint.argmax(), joint.shape)
    rows = [factor.table[k].tolist() for factor, k in zip(factors, best, strict=True)]
    assert policy.theta[0] == tuple(value for row in rows for value in row)


def test_boxes_that_jitter_stay_in_place() -> None:
    settings = {"entropy": {"crop": (0.5, 1.0)}}
    moving = augmenter(T.Crop(levels=CROP.levels, jitter=True), **settings)
    still = augmenter(CROP, **settings)
    still.load_state_dict(moving.state_dict())
    x = [images(3)]
    assert average_policy(moving, x, 4).theta == average_policy(still, x, 4).theta


@pytest.mark.parametrize("levels", [CROP.levels, ((0.5, 2),)])
def test_an_original_that_is_kept_comes_first(levels: Any) -> None:
    """As it does in the augmenter itself, whether it is among the boxes or not."""
    aug, x = augmenter(T.Crop(levels=levels), keep_original=True), images(1)
    policy = average_policy(aug, [x], 5)
    theta = aug.eval().draw(x, 5, select="top")[:, 0]
    assert policy.theta == tuple(tuple(row) for row in theta.tolist())
    probs = aug.distribution(x).finite()["crop"].probs[0][-4:]
    others = (probs / probs.sum()).sort(descending=True).values
    weight = torch.tensor(policy.probabilities)
    torch.testing.assert_close(weight / weight[1:].sum(), torch.cat([others[:1], others]))
    with pytest.raises(ArgumentError, match=r"`n` must lie in \[1, 5\].*got 6"):
        average_policy(aug, [x], 6)


def test_a_model_that_phi_reads_is_left_as_it_was() -> None:
    model = small_classifier().train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    aug = InstaAug(CROP, network=FrozenFeatures(model, size=16))
    average_policy(aug, [images(4)], 2)
    assert all(part.training for part in model.modules())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_the_augmenter_is_left_as_it_was() -> None:
    aug = augmenter(CROP).train()
    assert isinstance(aug.phi.network, OwnNetwork)
    aug.phi.network.coarse.eval()
    average_policy(aug, [images(2)], 2)
    assert aug.phi.network.fine.training
    assert not aug.phi.network.coarse.training


def test_top_gives_the_rows_in_order_and_starts_again() -> None:
    aug = halves().as_augmenter()
    theta = aug.draw(images(2), 4, select="top")
    expected = torch.tensor([*HALVES, HALVES[0]])[:, None].expand(4, 2, 4)
    assert torch.equal(theta, expected)


@pytest.mark.parametrize("merge", ["logit", "probability", "weighted"])
def test_a_wrapped_model_averages_over_the_views(merge: Any) -> None:
    model, x = small_classifier().eval(), images(5)
    policy = halves(padding_mode="border")
    predictor = policy.as_augmenter().wrap(model, 2, merge=merge).eval()  # the top, unasked
    with torch.no_grad():
        outputs = [
            model(CROP.apply(x, torch.tensor([row]).repeat(5, 1), padding_mode="border"))
            for row in HALVES[:2]
        ]
        if merge == "probability":
            outputs = [out.softmax(dim=1) for out in outputs]
        first = 0.5 / 0.8 if merge == "weighted" else 0.5
        mean = first * outputs[0] + (1 - first) * outputs[1]
        expected = mean.log() if merge == "probability" else mean
        torch.testing.assert_close(predictor(x), expected)


def indices(theta: Tensor) -> Tensor:
    """Which of the halves each row is."""
    return (theta[..., None, :] == torch.tensor(HALVES)).all(dim=-1).int().argmax(dim=-1)


def test_samples_come_without_replacement_by_default(generator: torch.Generator) -> None:
    aug = halves().as_augmenter()
    drawn = indices(aug.draw(images(50), 5, generator=generator))
    assert torch.equal(drawn[:3].sort(dim=0).values, torch.arange(3)[:, None].expand(3, 50))
    assert (drawn[3] != drawn[4]).all()
    assert len(drawn[0].unique()) == 3  # the first is any; by chance alone 1 in 300 fails


@pytest.mark.parametrize("way", ["first without replacement", "with replacement", "training"])
def test_samples_follow_the_probabilities(way: str, generator: torch.Generator) -> None:
    """Within five standard errors: a right sampler fails in less than one of 500,000 cases."""
    aug, x = halves().as_augmenter(), images(4000, height=1, width=1)
    if way == "training":
        theta = aug(x, generator=generator).theta
    else:
        theta = aug.draw(x, 1, replace=way == "with replacement", generator=generator)
    shares = indices(theta[0]).bincount(minlength=3) / 4000
    expected = torch.tensor([0.5, 0.3, 0.1]) / 0.9
    errors = (expected * (1 - expected) / 4000).sqrt()
    assert ((shares - expected).abs() < 5 * errors).all()


def test_any_transform_can_have_a_policy() -> None:
    policy = StaticPolicy(((pi / 2,),), (1.0,), Composition((T.Rotation(),)))
    x = images(2, height=8, width=8)
    turned = policy.as_augmenter()(x).inputs
    torch.testing.assert_close(turned, torch.rot90(x, dims=(2, 3)), atol=1e-5, rtol=0)


def test_the_augmenter_says_what_it_is() -> None:
    text = "StaticAugmenter(crop: 3 views with 90% of the mean probability)"
    assert repr(halves().as_augmenter()) == text


def test_a_policy_survives_its_file(tmp_path: Path) -> None:
    transform = Composition((CROP, T.Flip()), mean=(0.5,), std=(0.25,), size=(12, 10))
    theta = tuple((*row, 1.0, -1.0) for row in HALVES)
    policy = halves(theta=theta, transform=transform, padding_mode="reflection")
    path = tmp_path / "deep" / "policy.json"
    policy.save(path)
    assert StaticPolicy.load(path) == policy
    learned = average_policy(augmenter(CROP), [images(3)], 4)
    learned.save(path)
    assert StaticPolicy.load(str(path)) == learned  # every number to the last bit
    assert json.loads(path.read_text())["columns"][:2] == ["box_x", "box_y"]


def written(path: Path, **changes: Any) -> Path:
    halves().save(path)
    config = json.loads(path.read_text())
    for key, value in changes.items():
        if key in ("size", "transforms", "mean"):
            config["transform"][key] = value
        else:
            config[key] = value
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "instaaug-policy/9"}, "This version reads 'instaaug-policy/1'"),
        ({"theta": []}, "It lists 0 views"),
        pytest.param({"theta": [[0.0]] * 10_001}, "It lists 10,001 views", id="too many views"),
        ({"theta": 7}, "is no policy"),
        ({"theta": [[1.0, 1.0]] * 3}, r"finite rows of 4 columns, box_x.*got \(1.0, 1.0\)"),
        ({"theta": [[0.0, 0.0, 2.0, float("nan")]] * 3}, "finite rows"),
        ({"theta": [[0.0, 0.0, 2.0, 10**400]] * 3}, "OverflowError"),
        ({"theta": [["a", "b", "c", "d"]] * 3}, "could not convert"),
        ({"probabilities": [0.5, 0.3]}, "`probabilities` must be 3 numbers"),
        ({"probabilities": [0.1, 0.3, 0.5]}, "that fall and sum to at most 1"),
        ({"probabilities": [0.9, 0.9, 0.9]}, "that fall and sum to at most 1"),
        ({"probabilities": [0.0, 0.0, 0.0]}, "not to 0"),
        ({"probabilities": [float("nan")] * 3}, "that fall and sum to at most 1"),
        ({"size": [100_000, 100_000]}, "would have 10,000,000,000 pixels each"),
        ({"size": [0, 5]}, "`size` must be a height and a width"),
        ({"size": "huge"}, "is no policy"),
        ({"transforms": []}, "at least one transform"),
        ({"transforms": [{"name": "os.system"}]}, "There is no transform called 'os.system'"),
        ({"transforms": [{"name": "crop", "levels": 3}]}, "is no policy"),
        ({"mean": [0.5]}, "`mean` and `std` must be given together"),
        (
            {"padding_mode": "__import__"},
            "`padding_mode` must be one of zeros, border, reflection",
        ),
    ],
    ids=str,
)
def test_a_file_that_makes_no_policy_is_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "policy.json", **changes)
    with unhooked(), pytest.raises(DataError, match=words) as caught:
        StaticPolicy.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"\x80\x04K\x01.", b"{" * 100_000, b'[{"a":' * 100_000]
)
def test_what_is_no_policy_at_all_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is no policy"):
        StaticPolicy.load(path)


def test_a_huge_or_absent_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    with pytest.raises(FileNotFoundError, match="There is no policy file"):
        StaticPolicy.load(path)
    with path.open("wb") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(DataError, match="too large for a policy: 17,825,792 bytes"):
        StaticPolicy.load(path)


def test_views_that_were_learned_for_classes_are_refused() -> None:
    aug = InstaAug(CROP, conditioning="class", num_classes=3)
    with pytest.raises(ArgumentError, match=r'`aug` must choose without the class.*"class"'):
        average_policy(aug, [images(2)], 1)


def test_bad_arguments_are_refused() -> None:
    x = [images(2)]
    with pytest.raises(ArgumentError, match=r"got rotation with intervals\. Fit crops"):
        average_policy(augmenter(CROP, T.Rotation()), x, 2)
    for n in (0, 6):
        with pytest.raises(ArgumentError, match=rf"`n` must lie in \[1, 5\].*got {n}"):
            average_policy(augmenter(CROP), x, n)
    with pytest.raises(ArgumentError, match="`images` must hold at least one batch: got none"):
        average_policy(augmenter(CROP), [], 2)
    many = augmenter(T.Crop(levels=((0.5, 250),)), T.Flip(), conditioning="none")
    with pytest.raises(ArgumentError, match=r"at most 100,000 combinations.*got 125,000"):
        average_policy(many, x, 2)
    with pytest.raises(ArgumentError, match="`theta` must hold at least one view"):
        halves(theta=(), probabilities=())
    with pytest.raises(UnknownNameError, match="no selection called 'best'"):
        halves().as_augmenter().draw(images(1), 1, select="best")
