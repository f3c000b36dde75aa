"""What every transform promises; parametrised over the registry, so that a new one cannot hide."""

import json
from dataclasses import FrozenInstanceError, fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from instaaug.errors import ShapeError
from instaaug.functional.warp import PaddingMode
from instaaug.transforms import TRANSFORMS, Flip, GeometricTransform, Transform, from_config
from tests.support.images import largest_difference, random_images
from tests.support.thetas import ALL_NAMES, differentiable_columns, generic_theta, make

SIZE = (37, 50)
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
HAS_DERIVATIVE = [n for n in ALL_NAMES if differentiable_columns(make(n))]


@pytest.fixture(params=ALL_NAMES)
def transform(request: pytest.FixtureRequest) -> Transform:
    return make(request.param)


def test_the_registry_holds_the_transforms_of_the_design() -> None:
    assert set(ALL_NAMES) >= {
        "affine", "blur", "brightness", "hsv_jitter", "contrast", "crop", "flip", "local_blur",
        "local_color", "local_mask", "local_noise", "noise", "perspective", "rotation", "scale",
        "shear", "translate", "uniform_crop", "window",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("size", "dtype"),
    [((16, 64), torch.float32), ((1, 1), torch.float32), *((SIZE, dtype) for dtype in DTYPES)],
    ids=str,
)
def test_the_identity_gives_the_image_back_to_the_last_bit(
    transform: Transform, size: tuple[int, int], dtype: torch.dtype
) -> None:
    x = random_images(3, height=size[0], width=size[1], dtype=dtype)
    out = transform.apply(x, transform.identity(3))
    assert out.dtype == dtype
    assert torch.equal(out, x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_identity_may_have_the_precision_of_the_image(
    transform: Transform, dtype: torch.dtype
) -> None:
    x = random_images(3, height=37, width=50, dtype=dtype)
    theta = transform.identity(3, like=x)
    assert theta.dtype == dtype
    assert torch.equal(transform.apply(x, theta), x)
    assert torch.equal(transform.invert(x, theta), x)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_the_identity_is_exact_for_colors_of_every_magnitude(
    transform: Transform, padding_mode: PaddingMode
) -> None:
    # Adding a difference to the interpolated image would lose the last bits of dark pixels
    # beside bright ones.
    x = 10 ** (-12 * random_images(2, height=37, width=50))
    assert torch.equal(transform.apply(x, transform.identity(2), padding_mode=padding_mode), x)


def test_an_unmoved_image_is_exact_beside_moved_ones(transform: Transform) -> None:
    x = random_images(3, height=37, width=50)
    theta = generic_theta(transform, 3, dtype=torch.float32)
    theta[1] = transform.identity()[0]
    out = transform.apply(x, theta)
    assert torch.equal(out[1], x[1])
    assert not torch.equal(out[0], x[0])
    assert not torch.equal(out[2], x[2])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shape_and_dtype_are_kept(transform: Transform, dtype: torch.dtype) -> None:
    x = random_images(2, height=37, width=50, dtype=dtype)
    out = transform.apply(x, generic_theta(transform, dtype=torch.float32))
    assert out.shape == x.shape
    assert out.dtype == dtype
    assert torch.isfinite(out).all()
    assert not torch.equal(out, x)


@given(batch=st.integers(1, 3), height=st.integers(1, 9), width=st.integers(1, 9), data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_size_of_image_will_do(
    batch: int, height: int, width: int, data: st.DataObject
) -> None:
    transform = make(data.draw(st.sampled_from(ALL_NAMES)))
    x = random_images(batch, height=height, width=width)
    out = transform.apply(x, generic_theta(transform, batch, dtype=torch.float32))
    assert out.shape == x.shape
    assert torch.isfinite(out).all()


def test_the_input_is_left_alone(transform: Transform) -> None:
    x = random_images()
    theta = generic_theta(transform, dtype=torch.float32)
    before = x.clone(), theta.clone()
    transform.apply(x, theta)
    assert torch.equal(x, before[0])
    assert torch.equal(theta, before[1])


def test_a_batch_equals_its_images_one_by_one(transform: Transform) -> None:
    x = random_images(4, height=13, width=22)
    theta = generic_theta(transform, 4, dtype=torch.float32)
    alone = [transform.apply(x[i : i + 1], theta[i : i + 1]) for i in range(4)]
    assert largest_difference(transform.apply(x, theta), torch.cat(alone)) <= 1e-6


def test_an_image_depends_on_its_own_row_alone(transform: Transform) -> None:
    x, row = random_images(3), 2
    theta = generic_theta(transform, 3, dtype=torch.float32)
    changed = theta.clone()
    changed[row] = transform.identity()[0]
    differs = (transform.apply(x, theta) != transform.apply(x, changed)).flatten(1).any(dim=1)
    assert differs.tolist() == [i == row for i in range(3)]


def test_an_image_depends_on_no_other_image(transform: Transform) -> None:
    x = random_images(3)
    theta = generic_theta(transform, 3, dtype=torch.float32)
    changed = x.clone()
    changed[1] = random_images(1, seed=1)[0]
    differs = (transform.apply(x, theta) != transform.apply(changed, theta)).flatten(1).any(dim=1)
    assert differs.tolist() == [False, True, False]


def test_repeating_gives_the_same_bits(transform: Transform) -> None:
    x = random_images(2, height=37, width=50)
    theta = generic_theta(transform, dtype=torch.float32)
    torch.manual_seed(1)
    first = transform.apply(x, theta)
    torch.manual_seed(2)
    assert torch.equal(transform.apply(x, theta), first)


def test_gradient_with_respect_to_the_image_is_right(transform: Transform) -> None:
    x = random_images(2, height=2, width=3, dtype=torch.float64) * 0.9 + 0.05
    theta = generic_theta(transform, seed=3)
    assert gradcheck(
        lambda image: transform.apply(image, theta), (x.requires_grad_(),), fast_mode=True
    )


@pytest.mark.parametrize("name", HAS_DERIVATIVE)
def test_gradient_with_respect_to_theta_is_right(name: str) -> None:
    transform = make(name)
    x = random_images(2, height=21, width=13, dtype=torch.float64) * 0.9 + 0.05
    theta = generic_theta(transform, seed=3)
    columns = differentiable_columns(transform)
    weights = random_images(5, height=21, width=13, dtype=torch.float64, seed=1)

    def projected(part: Tensor) -> Tensor:
        out = transform.apply(x, theta.index_copy(1, torch.tensor(columns), part))
        return torch.einsum("bchw,kchw->bk", out, weights - 0.5)

    part = theta[:, columns].requires_grad_()
    assert gradcheck(projected, (part,))
    (slope,) = torch.autograd.grad(projected(part)[:, 0].sum(), part)
    assert (slope.abs().amax(dim=0) > 1e-3).all()


def test_configuration_survives_the_round_trip(transform: Transform) -> None:
    config = transform.to_config()
    assert config["name"] == transform.name
    assert from_config(config) == transform
    assert from_config(json.loads(json.dumps(config))) == transform


def test_other_limits_survive_the_round_trip_through_json(transform: Transform) -> None:
    other = _with_other_limits(transform)
    assert other != transform
    assert from_config(json.loads(json.dumps(other.to_config()))) == other


def test_equal_by_value_and_hashable(transform: Transform) -> None:
    twin, other = make(transform.name), _with_other_limits(transform)
    assert twin is not transform
    assert twin == transform
    assert hash(twin) == hash(transform)
    assert len({transform, twin, other}) == 2


def test_frozen(transform: Transform) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(transform, fields(transform)[0].name, 0.1)  # type: ignore[arg-type]


def test_kinds_with_equal_limits_differ() -> None:
    assert len({make(name) for name in ALL_NAMES}) == len(ALL_NAMES)


def test_each_column_has_a_name(transform: Transform) -> None:
    assert len(transform.columns) == transform.n_parameters
    assert len(set(transform.columns)) == transform.n_parameters
    assert transform.identity(3).shape == (3, transform.n_parameters)


def test_the_registered_name_is_its_own(transform: Transform) -> None:
    assert TRANSFORMS[transform.name] is type(transform)


@pytest.mark.parametrize("kind", ["too few rows", "too many columns", "one axis", "three axes"])
def test_theta_of_a_wrong_shape_is_named(transform: Transform, kind: str) -> None:
    n = transform.n_parameters
    shape = {
        "too few rows": (1, n),
        "too many columns": (2, n + 1),
        "one axis": (2,),
        "three axes": (2, n, 1),
    }[kind]
    words = (
        rf"`theta` of {transform.name} must be \(2, {n}\), a row per image: "
        rf"got \({', '.join(map(str, shape))},?\). Columns: {', '.join(transform.columns)}\."
    )
    with pytest.raises(ShapeError, match=words):
        transform.apply(random_images(2), torch.ones(shape))


def test_only_geometric_transforms_move_things(transform: Transform) -> None:
    theta = generic_theta(transform)
    points = torch.tensor([[[0.3, -0.2], [0.0, 0.5]]], dtype=torch.float64).expand(2, 2, 2)
    moved = transform.apply_keypoints(points, theta, aspect=1.5)
    assert torch.equal(moved, points) != isinstance(transform, GeometricTransform)


def _with_other_limits(transform: Transform) -> Transform:
    """A transform of the same kind with its first field changed; of a flip, its last."""
    first = fields(transform)[-1 if isinstance(transform, Flip) else 0].name  # type: ignore[arg-type]
    value = getattr(transform, first)
    other = {"levels": ((1.0, 1), (0.5, 3)), "vertical": True}.get(first)
    return replace(transform, **{first: value * 0.75 if other is None else other})  # type: ignore[type-var]
