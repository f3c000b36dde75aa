"""The learned stop: against enumeration, against a fixed number of views, and in a predictor."""

from pathlib import Path

import pytest
import torch
from torch import nn

from instaaug import InstaAug
from instaaug.augmentation.plan import PlanShape
from instaaug.augmentation.stopping import PRICES, StopRule, fit_stop_rule, view_states
from instaaug.errors import ArgumentError
from instaaug.methods import FixedViews
from instaaug.transforms import Crop

N_CLASSES = 5


def make_stages(
    n: int, n_stages: int, *, seed: int = 0, hard: float = 0.5
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Merged logits of images of which some are sure at once, and others only after some views."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(N_CLASSES, (n,), generator=generator)
    is_hard = torch.rand(n, generator=generator) < hard
    truth = 4 * nn.functional.one_hot(targets, N_CLASSES).float()
    total, stages = torch.zeros(n, N_CLASSES), []
    for k in range(n_stages):
        noise = torch.randn(n, N_CLASSES, generator=generator)
        easy, blurred = truth + 0.3 * noise, 0.15 * truth + noise
        total = total + torch.where(is_hard[:, None], blurred, easy)
        stages.append(total / (k + 1) * (k + 1) ** 0.5)
    return stages, targets


def test_it_keeps_to_its_budget_and_beats_the_same_number_of_views_for_all() -> None:
    """3,000 images each; the difference of 0.05 is ten standard errors of it."""
    fit, fit_targets = make_stages(3000, 8, seed=0)
    new, targets = make_stages(3000, 8, seed=1)
    rule = fit_stop_rule(fit, fit_targets, [1.0] * 8)
    for budget in (2, 3, 4):
        stages = rule.last_stages(new, price=rule.price_for(budget))
        assert float(stages.double().mean()) + 1 <= budget * 1.05
        stopped = torch.stack(new)[stages, torch.arange(len(targets))]
        right = (stopped.argmax(dim=1) == targets).double().mean()
        fixed = (new[budget - 1].argmax(dim=1) == targets).double().mean()
        assert right > fixed + 0.01


def test_it_spends_views_on_inputs_that_need_them() -> None:
    stages, targets = make_stages(2000, 6, hard=0.3)
    rule = fit_stop_rule(stages, targets, [1.0] * 6)
    last = rule.last_stages(stages, price=rule.price_for(2))
    wrong_at_first = stages[0].argmax(dim=1) != targets
    assert last[wrong_at_first].double().mean() > 2 * last[~wrong_at_first].double().mean()


def test_a_higher_price_never_costs_more() -> None:
    stages, targets = make_stages(1000, 6)
    rule = fit_stop_rule(stages, targets, [1.0] * 6)
    spent = [float(rule.last_stages(stages, price=p).double().mean()) for p in range(len(PRICES))]
    assert spent[0] < spent[-1]
    assert torch.allclose(rule.mean_cost, 1 + torch.tensor(spent), atol=1e-5)


def test_views_that_add_nothing_are_not_taken() -> None:
    stages, targets = make_stages(500, 1)
    rule = fit_stop_rule(stages * 4, targets, [1.0] * 4)
    assert rule.last_stages(stages * 4, price=12).max() == 0


def test_cost_of_each_stage_counts() -> None:
    """What is bought at one view a stage is not bought at twenty."""
    stages, targets = make_stages(1000, 4)
    cheap = fit_stop_rule(stages, targets, [1.0, 1.0, 1.0, 1.0])
    dear = fit_stop_rule(stages, targets, [1.0, 20.0, 20.0, 20.0])
    assert (
        dear.last_stages(stages, price=8).double().mean()
        < cheap.last_stages(stages, price=8).double().mean()
    )


def test_stages_and_costs_must_agree() -> None:
    stages, targets = make_stages(10, 2)
    with pytest.raises(ArgumentError, match="`merged` and `cost` must have an entry per view"):
        fit_stop_rule(stages, targets, [1.0])


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1e4])
def test_states_are_finite(scale: float) -> None:
    logits = scale * torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    assert view_states(logits, torch.zeros(8).long()).isfinite().all()


def fitted_augmenter(*, preview: int = 0) -> InstaAug:
    """Crops with a plan whose rule goes on where the top class has less than 0.9."""
    aug = InstaAug(
        Crop(((1.0, 1), (0.5, 2))), conditioning="none", size=16, keep_original=True, select="top"
    )
    plan = aug.set_plan(PlanShape(4, n_stages=3 + bool(preview), n_prices=1, preview=preview))
    assert plan.stop is not None
    plan.stop.weight[..., 0], plan.stop.weight[..., 1] = 0.9, -1.0
    plan.stop.mean_cost.fill_(2.0)
    return aug


class Brightness(nn.Module):
    """Sure of bright images, unsure of dark ones, in any size; counts the images it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append((len(x), x.shape[-1]))
        level = x.mean(dim=(1, 2, 3))
        return torch.stack([10 * level, torch.zeros_like(level)], dim=1)


def images() -> torch.Tensor:
    return torch.tensor([1.0, 0.0, 1.0, 0.0])[:, None, None, None].expand(4, 3, 32, 32).clone()


def test_a_predictor_stops_where_the_rule_says() -> None:
    model = Brightness()
    predictor = fitted_augmenter().wrap(model, 3, mean_views=2.0).eval()
    outputs, counts = predictor.outputs_and_counts(images())
    assert counts.tolist() == [1, 3, 1, 3]
    assert sum(n for n, _ in model.seen) == 4 + 2 + 2
    assert torch.allclose(outputs[:, 0], torch.tensor([10.0, 0.0, 10.0, 0.0]), atol=1e-4)


def test_a_temperature_does_not_change_where_it_stops() -> None:
    predictor = fitted_augmenter().wrap(Brightness(), 3, mean_views=2.0, temperature=50.0).eval()
    assert predictor.outputs_and_counts(images())[1].tolist() == [1, 3, 1, 3]


def test_a_preview_is_enough_for_easy_inputs() -> None:
    model = Brightness()
    predictor = fitted_augmenter(preview=8).wrap(model, 3, mean_views=2.0).eval()
    outputs, counts = predictor.outputs_and_counts(images())
    assert counts.tolist() == [0, 3, 0, 3]
    assert model.seen[0] == (4, 8)
    assert all(size == 16 for _, size in model.seen[1:])
    assert sum(n for n, _ in model.seen) == 4 + 2 * 3
    assert torch.allclose(outputs[:, 0], torch.tensor([10.0, 0.0, 10.0, 0.0]), atol=1e-4)


def test_without_a_budget_nothing_is_previewed() -> None:
    model = Brightness()
    _, counts = fitted_augmenter(preview=8).wrap(model, 3).eval().outputs_and_counts(images())
    assert counts.tolist() == [3, 3, 3, 3]
    assert {size for _, size in model.seen} == {16}


def test_a_plan_survives_saving(tmp_path: Path) -> None:
    aug = fitted_augmenter(preview=8)
    assert aug.plan is not None
    aug.plan.set_order([3, 1, 0, 2])
    aug.plan.dependence.fill_(0.25)
    aug.plan.preview_factor.fill_(1.5)
    aug.set_merging("confidence", 0.5, 0.8)
    aug.save(tmp_path / "aug.safetensors")
    other = InstaAug.load(tmp_path / "aug.safetensors")
    assert other.plan is not None
    assert other.settings == aug.settings
    assert other.preview == (8, 1.5)
    assert other.merging == aug.merging
    for name, value in aug.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_the_order_for_all_is_followed_and_phi_departs_from_it() -> None:
    aug = fitted_augmenter()
    assert aug.plan is not None
    aug.plan.set_order([3, 1, 0, 2])
    aug.plan.dependence.fill_(0.0)
    x = torch.rand(2, 3, 32, 32)
    boxes = aug.other_choices(aug.distribution(x)).table
    ordered = aug.views(x, 5, select="top").theta[1:, 0]
    assert torch.equal(ordered, boxes[[3, 1, 0, 2]])
    head = next(p for p in aug.phi.heads.parameters() if p.numel() == 5)
    with torch.no_grad():
        head.copy_(torch.tensor([0.0, 0.0, 0.0, 9.0, 0.0]).view_as(head))
    aug.plan.dependence.fill_(1.0)
    moved = aug.views(x, 5, select="top").theta[1:, 0]
    assert not torch.equal(moved, ordered)


def test_a_rule_of_no_stages_stops_at_once() -> None:
    rule = StopRule(n_prices=1, n_stages=1)
    assert not rule.goes_on(torch.zeros(2, 2), 0, price=0).any()


def test_any_augmenter_shows_the_whole_input_in_another_size() -> None:
    x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    halves = FixedViews.flips().resize(x, 8)
    assert torch.allclose(halves, nn.functional.avg_pool2d(x, 2), atol=1e-5)
