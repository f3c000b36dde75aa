"""Undoing: what happened to an input is found from what is done to it in addition."""

import math
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation.at_test_time import TestTimeAugmentation
from instaaug.augmentation.observed import observe
from instaaug.augmentation.plan import ResizedImage
from instaaug.augmentation.range_edges import learned_ranges
from instaaug.distributions import UniformBox
from instaaug.errors import ArgumentError
from instaaug.frozen import export_phi, export_predictor
from instaaug.networks import make_network
from instaaug.parameterizations import Undoing, UniformFamily
from instaaug.spaces import Interval
from instaaug.transforms import Composition, Transform
from tests.support.unhooked import unhooked

N = 32
ENTROPY_ERROR = 1e-4


def make_undoing(*transforms: Transform, strength: float = 0.5) -> Undoing:
    torch.manual_seed(0)
    network = make_network("glance", in_channels=3, width=1.0)
    return Undoing(Composition(transforms), network, strength=strength)


def dim_images() -> Tensor:
    """Images that can become twice as bright without being clipped."""
    return 0.5 * torch.rand(N, 3, 16, 16, generator=Generator().manual_seed(0))


def practiced(transform: Transform, x: Tensor, n_steps: int = 100) -> InstaAug:
    """An augmenter that has learned to undo, and nothing else."""
    torch.manual_seed(0)
    aug = InstaAug(transform, undo=0.9)
    assert aug.undoing is not None
    optimizer = torch.optim.Adam(aug.undoing.parameters(), 2e-3)
    generator = Generator().manual_seed(1)
    for _ in range(n_steps):
        loss = aug(x, generator=generator).added_loss
        assert loss is not None
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return aug.eval()


@torch.no_grad()
def ends_of(aug: InstaAug, x: Tensor) -> tuple[Tensor, Tensor]:
    """The range of factors of brightness for each input."""
    found = aug.distribution(x)["brightness"]
    assert isinstance(found, UniformBox)
    return found.ends()


@pytest.fixture(scope="module")
def aug() -> InstaAug:
    return practiced(T.Brightness(), dim_images())


# What is learned


def test_two_changes_of_an_input_are_undone_to_the_same(aug: InstaAug) -> None:
    x = dim_images()
    apart = [(aug.canonical(x) - aug.canonical(share * x)).abs().mean() for share in (0.6, 1.8)]
    before = [(x - share * x).abs().mean() for share in (0.6, 1.8)]
    assert all(now < 0.1 * then for now, then in zip(apart, before, strict=True))


def test_the_loss_asks_for_the_same_and_for_nothing_else() -> None:
    undoing = make_undoing(T.HSVJitter(), strength=1.0)
    theta = undoing.draw(2 * N, Generator().manual_seed(0))
    axis = torch.where(undoing.factors, theta.log(), theta) / undoing.room
    whatever = 0.1 * torch.randn(N, 3, generator=Generator().manual_seed(1))
    whatever -= whatever.mean(dim=0)
    right = whatever.repeat(2, 1) - axis
    assert float(undoing.loss(right, theta)) == pytest.approx(0, abs=1e-10)
    assert float(undoing.loss(right + 0.1, theta)) == pytest.approx(0.1 * 0.01, rel=1e-3)
    assert float(undoing.loss(torch.zeros_like(axis), theta)) > 0.1


def test_a_whole_turn_of_the_hue_is_no_change() -> None:
    undoing = make_undoing(T.HSVJitter())
    theta = torch.tensor([[0.1, 1, 1], [-0.9, 1, 1]])
    assert float(undoing.loss(torch.zeros(2, 3), theta)) < 0.1 * 0.2**2
    found = torch.tensor([[1.4, 1.4, 0.0]])  # in half circles, and in halves of the range
    shift = undoing.shifts(found)["hsv_jitter"]
    assert torch.allclose(shift, torch.tensor([[-0.3, 2 * math.log(2), 0.0]]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_it_works_in_any_precision(dtype: torch.dtype) -> None:
    aug = InstaAug(["crop", "white_balance"], undo=0.5, keep_original=True).to(dtype).eval()
    x = dim_images()[:2].to(dtype)
    assert aug.canonical(x).dtype == dtype
    assert aug.draw(x, 3).shape == (3, 2, 7)


def test_lower_precision_of_the_network_does_not_reach_the_colors(aug: InstaAug) -> None:
    shifts = {"brightness": torch.full((N, 1), 0.123456)}
    with torch.autocast("cpu", torch.bfloat16):
        start = aug.start(dim_images(), shifts)
        assert aug.canonical(dim_images()).shape == (N, 3, 16, 16)
    assert torch.allclose(start, torch.tensor(0.123456).exp(), atol=1e-6)


def test_nothing_is_undone_before_it_is_learned() -> None:
    aug = InstaAug("hsv_jitter", undo=0.5)
    assert torch.allclose(aug.canonical(dim_images()), dim_images(), atol=1e-6)


def test_ranges_around_another_point_have_not_drifted_to_an_edge() -> None:
    aug = InstaAug("brightness", undo=0.9).eval()
    assert aug.undoing is not None
    with torch.no_grad():
        aug.undoing.head.linear.bias.fill_(0.9)
    (seen,) = observe(aug, dim_images(), 2).factors
    assert isinstance(seen.space, Interval)
    assert seen.low is not None
    assert seen.high is not None
    (around,) = learned_ranges(seen.space, seen.low, seen.high, seen.origin)
    assert around.edges() == []
    (wrong,) = learned_ranges(seen.space, seen.low, seen.high)
    assert wrong.edges()


def test_the_loss_of_the_model_does_not_teach_it() -> None:
    aug = InstaAug("brightness", undo=0.5)
    aug(dim_images()).inputs.sum().backward()
    assert aug.undoing is not None
    assert all(p.grad is None for p in aug.undoing.parameters())
    assert any(p.grad is not None for p in aug.phi.parameters())


def test_the_objective_teaches_it() -> None:
    aug = InstaAug("brightness", undo=0.5)
    batch = aug(dim_images())
    aug.objective(torch.zeros(N), batch).backward()
    assert aug.undoing is not None
    assert all(p.grad is not None for p in aug.undoing.head.parameters())


# What it changes


def test_ranges_begin_where_an_input_would_be(aug: InstaAug) -> None:
    x = dim_images()
    family = aug.phi.families[0]
    assert isinstance(family, UniformFamily)
    bright, dark = (torch.cat(ends_of(aug, share * x)).log().mean() for share in (1.0, 0.5))
    assert float(dark - bright) == pytest.approx(math.log(2), abs=0.15)  # half the light
    plain = [family(torch.zeros(1, family.n_raw), s) for s in (None, torch.ones(1, 1))]
    first, second = (family.widths(box, per_side=True) for box in plain)
    assert torch.allclose(first, second)


def test_views_and_the_first_of_them_begin_there() -> None:
    torch.manual_seed(0)
    aug = InstaAug("brightness", undo=0.9, keep_original=True).eval()
    assert aug.undoing is not None
    with torch.no_grad():
        aug.undoing.head.linear.bias.fill_(1.0)  # twice as bright, whatever the input is
        aug.undoing.head.linear.weight.zero_()
        theta = aug.draw(dim_images(), 9, generator=Generator().manual_seed(0))
    assert torch.allclose(theta[0], torch.tensor(2.0))
    low, high = ends_of(aug, dim_images())
    assert bool((theta[1:] >= low - 1e-6).all())
    assert bool((theta[1:] <= high + 1e-6).all())
    assert bool((low < 2).all())
    assert bool((high > 2).all())


def test_crops_are_left_alone_and_keep_their_detail() -> None:
    torch.manual_seed(0)
    aug = InstaAug([T.Crop(), T.HSVJitter(), T.Blur()], undo=0.5, size=16)
    batch = aug(torch.rand(4, 3, 32, 32))
    assert batch.inputs.shape == (4, 3, 16, 16)
    assert aug.undoing is not None
    assert (aug.undoing.name, aug.undoing.first) == ("hsv_jitter", 4)
    start = aug.undoing.start(
        aug.transform.identity(2), {"hsv_jitter": torch.tensor([[0.1, 0.0, 0.0]] * 2)}
    )
    assert torch.allclose(start[0], torch.tensor([0.0, 0, 2, 2, 0.1, 1, 1, 0]))


def test_nothing_is_changed_at_random_in_evaluation() -> None:
    aug = InstaAug("contrast", undo=0.5).eval()
    batches = [aug(dim_images(), generator=Generator().manual_seed(0)) for _ in range(2)]
    assert batches[0].added_loss is None
    assert torch.equal(batches[0].inputs, batches[1].inputs)
    assert torch.equal(aug.canonical(dim_images()), aug.canonical(dim_images()))


def test_all_inputs_may_share_what_begins_elsewhere_for_each() -> None:
    aug = InstaAug("brightness", conditioning="none", undo=0.5)
    assert aug.undoing is not None
    torch.nn.init.normal_(aug.undoing.head.linear.weight, std=1e-3)
    low, high = ends_of(aug.eval(), dim_images())
    widths = (high / low).flatten()
    assert float(widths.std()) < ENTROPY_ERROR
    assert float(low.std()) > 0


def test_it_is_saved(tmp_path: Path, aug: InstaAug) -> None:
    aug.save(tmp_path / "aug.safetensors")
    again = InstaAug.load(tmp_path / "aug.safetensors").eval()
    assert again.settings.undo == 0.9
    assert torch.equal(again.canonical(dim_images()), aug.canonical(dim_images()))


# What cannot be


@pytest.mark.parametrize(
    ("transforms", "settings", "words"),
    [
        ("crop", {"undo": 0.5}, "`undo` needs one transform of colors.*: got crop"),
        ("rotation", {"undo": 0.5}, "got rotation"),
        (["contrast", "hsv_jitter"], {"undo": 0.5}, "got contrast, hsv_jitter. Choose one of"),
        ("brightness", {"undo": 1.5}, "must be a share of each range, from 0 to 1: got 1.5"),
        ("brightness", {"undo": -0.1}, "got -0.1"),
        ("brightness", {"undo": float("nan")}, "got nan"),
        ("brightness", {"undo": "half"}, "`undo` must be a number: got 'half'"),
        ("brightness", {"undo": 0.5, "ranges": "latent"}, "`undo` needs ranges with two ends"),
        (
            "brightness",
            {"undo": 0.5, "conditioning": "class", "num_classes": 3},
            'got ranges="uniform" and conditioning="class"',
        ),
    ],
)
def test_what_cannot_be_undone_is_said(
    transforms: str | list[str], settings: dict[str, object], words: str
) -> None:
    with unhooked(), pytest.raises(ArgumentError, match=words):
        InstaAug(transforms, **settings)  # type: ignore[arg-type]


def test_a_file_of_phi_alone_would_leave_it_out(tmp_path: Path) -> None:
    aug = InstaAug("brightness", undo=0.5)
    with pytest.raises(ArgumentError, match="`aug` must undo nothing to be exported"):
        export_phi(aug, tmp_path / "phi.pt2", dim_images()[:2])


def test_a_predictor_of_the_image_alone_undoes_it_too(aug: InstaAug) -> None:
    x = dim_images()
    assert torch.allclose(aug.resize(x, 16), aug.canonical(x), atol=1e-6)
    assert aug.resize(x, 8).shape[-2:] == (8, 8)


def test_an_exported_predictor_undoes_the_light(tmp_path: Path, aug: InstaAug) -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 4))
    alone = TestTimeAugmentation(aug, model, 1, whole=ResizedImage(16, 1.0)).eval()
    x = dim_images()
    export_predictor(alone, tmp_path / "model.pt2", x[:3], classes=("a", "b", "c", "d"))
    written = torch.export.load(tmp_path / "model.pt2").module()
    (outputs,) = written(0.6 * x).values()
    assert torch.allclose(outputs, model(aug.canonical(0.6 * x)), atol=1e-4)
    assert not torch.allclose(outputs, model(0.6 * x), atol=1e-2)
