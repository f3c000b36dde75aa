"""What an augmenter does, as it is shown to people."""

import numpy as np
import pytest
import torch

import instaaug
from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation.observed import observe
from instaaug.errors import ArgumentError
from instaaug.methods import NoAugmentation, RandAugment, RandomAugmentation

X = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
CROP = T.Crop(levels=((0.5, 2), (1.0, 1)))


def unlike(aug: InstaAug, seed: int = 0) -> InstaAug:
    """The same with other weights, so that inputs get distributions of their own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in aug.phi.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return aug


def test_distributions_are_those_of_the_augmenter() -> None:
    aug = unlike(InstaAug([CROP, T.Rotation(), T.Flip()])).eval()
    crop, rotation, flip = observe(aug, X, 4).factors
    with torch.no_grad():
        joint = aug.distribution(X)
    assert [f.name for f in (crop, rotation, flip)] == list(joint.factors)
    for seen, factor in ((crop, joint["crop"]), (flip, joint["flip"])):
        assert seen.probs is not None
        assert torch.equal(seen.probs, joint.finite()[seen.name].logits.softmax(dim=-1))
        assert seen.entropy is not None
        assert torch.equal(seen.entropy, factor.entropy())
    assert rotation.low is not None
    assert rotation.high is not None
    assert torch.equal((rotation.high - rotation.low).log().sum(-1), joint["rotation"].entropy())
    assert rotation.probs is crop.low is None
    assert crop.band == aug.limits["crop"]


def test_theta_of_each_factor_is_its_part_of_theta() -> None:
    seen = observe(unlike(InstaAug([CROP, T.Rotation(), T.HSVJitter()])), X, 5)
    parts = [factor.theta for factor in seen.factors]
    assert torch.equal(torch.cat(parts, dim=-1), seen.theta)
    assert [part.shape[-1] for part in parts] == [4, 1, 3]
    crop = seen.factors[0]
    assert crop.table is not None
    drawn = crop.theta.reshape(-1, 1, 4)
    assert (drawn == crop.table).all(dim=-1).any(dim=-1).all()


def test_samples_are_what_theta_makes_of_the_inputs() -> None:
    aug = unlike(InstaAug([CROP, T.Rotation()]))
    seen = observe(aug, X, 3, n_rendered=2)
    assert seen.samples.shape == (2, 3, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(seen.samples[1], aug.render(X, seen.theta[1]).clamp(0, 1))


def test_normalized_inputs_are_shown_as_they_were() -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    normalized = (X - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    told = observe(InstaAug(CROP, mean=mean, std=std), normalized, 1)
    assert torch.allclose(told.images, X, atol=1e-6)
    asked = observe(NoAugmentation(), normalized, 1, mean=mean, std=std)
    assert torch.allclose(asked.samples[0], X, atol=1e-6)


def test_nothing_is_changed_by_looking() -> None:
    aug = unlike(InstaAug(CROP))
    before = {k: v.clone() for k, v in aug.state_dict().items()}
    modes = [m.training for m in aug.modules()]
    observe(aug, X, 2)
    assert modes == [m.training for m in aug.modules()]
    assert all(modes)
    assert all(torch.equal(v, before[k]) for k, v in aug.state_dict().items())


def test_one_seed_draws_the_same_and_another_does_not() -> None:
    aug = unlike(InstaAug(T.Rotation()))

    def theta(seed: int) -> torch.Tensor:
        return observe(aug, X, 4, generator=torch.Generator().manual_seed(seed)).theta

    assert torch.equal(theta(1), theta(1))
    assert not torch.equal(theta(1), theta(2))


def test_hand_set_ranges_are_shown_for_every_input() -> None:
    seen = observe(RandomAugmentation([T.Rotation(), CROP], strength=0.5), X, 50)
    rotation, crop = seen.factors
    assert rotation.low is not None
    assert rotation.high is not None
    assert torch.allclose(rotation.low, torch.full((3, 1), -torch.pi / 2))
    assert torch.allclose(rotation.high, torch.full((3, 1), torch.pi / 2))
    assert (rotation.theta >= rotation.low).all()
    assert (rotation.theta <= rotation.high).all()
    assert rotation.entropy is crop.probs is crop.low is None


def test_no_augmentation_shows_the_inputs_alone() -> None:
    seen = observe(NoAugmentation(), X, 2)
    assert seen.factors == ()
    assert torch.equal(seen.samples, X.expand(2, *X.shape))


def test_drawn_operations_have_samples_and_parameters() -> None:
    seen = observe(RandAugment(), X, 2)
    assert [factor.name for factor in seen.factors] == ["operations.step_1", "operations.step_2"]
    assert not torch.equal(seen.samples[0], X)


def test_without_replacement_no_box_comes_twice() -> None:
    aug = unlike(InstaAug(CROP))
    boxes = observe(aug, X, 4, replace_drawn=False).theta
    assert all(len(boxes[:, i].unique(dim=0)) == 4 for i in range(3))


def test_outlines_are_where_the_corners_of_a_view_come_from() -> None:
    """A quarter turn of the whole: the view's top left shows a corner of the image."""
    aug = RandomAugmentation([T.Crop(), T.Rotation()], sizes=(0.5, 0.5))
    seen = observe(aug, X, 6, generator=torch.Generator().manual_seed(0))
    assert seen.outlines is not None
    crop, rotation = (factor.theta for factor in seen.factors)
    sides = (seen.outlines - seen.outlines.roll(1, dims=2)).norm(dim=-1)
    assert torch.allclose(sides, torch.ones_like(sides), atol=1e-5)  # half of an image of side 2
    assert torch.allclose(seen.outlines.mean(dim=2), crop[..., :2], atol=1e-5)
    edge = seen.outlines[..., 1, :] - seen.outlines[..., 0, :]
    turned = torch.atan2(edge[..., 1], edge[..., 0])
    assert torch.allclose(turned.cos(), rotation[..., 0].cos(), atol=1e-4)


def test_outlines_frame_the_pixels_that_a_view_shows() -> None:
    """A bright spot at the top left corner of a view's outline is at its top left."""
    aug = RandomAugmentation([T.UniformCrop(), T.Rotation()], strength=0.4)
    seen = observe(aug, X[:1], 1, generator=torch.Generator().manual_seed(3))
    assert seen.outlines is not None
    corner = seen.outlines[0, 0, 0] * 0.8 + seen.outlines[0, 0].mean(dim=0) * 0.2
    column, row = ((corner + 1) / 2 * 64).long().tolist()
    spot = torch.zeros(1, 1, 64, 64)
    spot[0, 0, max(row - 2, 0) : row + 3, max(column - 2, 0) : column + 3] = 1
    view = aug.render(spot, seen.theta[0])[0, 0]
    assert view[:20, :20].sum() > 0.9 * view.sum() > 0


def test_upright_boxes_and_whole_images_need_no_outline() -> None:
    for transforms in ([T.Crop(), T.Flip()], [T.Rotation(), T.Flip()], [T.HSVJitter()]):
        assert observe(RandomAugmentation(transforms), X, 2).outlines is None


def test_no_sample_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`n_samples` must be at least 1: got 0"):
        observe(NoAugmentation(), X, 0)


def test_plot_shows_inputs_titles_and_samples() -> None:
    figure = instaaug.plot(unlike(InstaAug([CROP, T.Rotation()])), X[:2], 3, titles=["cat", "dog"])
    words = [text.get_text() for text in figure.texts]
    assert {"cat", "dog", "crop", "rotation", "samples"} <= set(words)
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_plot_takes_a_single_image() -> None:
    figure = instaaug.plot(InstaAug(CROP), X[0], 2)
    shown = [image for axes in figure.axes for image in axes.get_images()]
    assert any(np.asarray(image.get_array()).shape[:2] == (16, 16) for image in shown)
