"""Which views are chosen, against rankings and frequencies that can be foreseen."""

import pytest
import torch
from torch import Tensor

from instaaug.augmentation.views import Select, Views, choose_views, without_row
from instaaug.distributions import CategoricalTheta, Joint, UniformBox
from tests.support.operators import Counter

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
