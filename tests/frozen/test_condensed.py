"""Classes that no view takes seriously become one, and the loss lies where it should."""

import numpy as np
import torch
from torch.nn import functional as F

from instaaug.frozen import ViewTable
from instaaug.frozen.table import condense


def table(num_classes: int) -> ViewTable:
    generator = torch.Generator().manual_seed(0)
    scores = 4 * torch.randn(70, 5, num_classes, generator=generator)
    targets = torch.randint(num_classes, (70,), generator=generator)
    return ViewTable(scores.numpy(), targets, np.ones((70, 2, 1, 1), np.float32))


def losses_of_means(some: ViewTable) -> torch.Tensor:
    outputs = some.outputs_of(torch.arange(len(some)))
    return F.cross_entropy(outputs.mean(dim=1), some.targets, reduction="none")


def losses_of_views(some: ViewTable) -> torch.Tensor:
    outputs = some.outputs_of(torch.arange(len(some)))
    targets = some.targets.repeat_interleave(outputs.shape[1])
    losses = F.cross_entropy(outputs.flatten(0, 1), targets, reduction="none")
    return losses.view(outputs.shape[:2])


def test_the_loss_of_a_single_view_stays_the_same() -> None:
    full = table(200)
    torch.testing.assert_close(
        losses_of_views(condense(full)), losses_of_views(full), rtol=0, atol=0.05
    )


def test_the_loss_lies_between_that_of_the_mean_and_the_mean_of_single_ones() -> None:
    full = table(200)
    small = losses_of_means(condense(full))
    assert bool((small > losses_of_means(full) - 0.02).all())
    assert bool((small < losses_of_views(full).mean(dim=1) + 0.02).all())
    assert float((small - losses_of_means(full)).mean()) > 0.1


def test_the_true_class_is_kept_though_no_view_believes_in_it() -> None:
    full = table(200)
    full.outputs[:, :, :] -= 50 * np.eye(200)[full.targets.numpy()][:, None]
    small = condense(full)
    rows = torch.arange(len(full))
    expected = full.outputs[rows.numpy(), :, full.targets.numpy()]
    np.testing.assert_allclose(small.outputs[:, :, 0], expected, atol=0.05)
    assert small.targets.tolist() == [0] * len(full)


def test_what_the_model_saw_goes_along() -> None:
    assert condense(table(200)).features is not None


def test_a_table_of_few_classes_or_of_numbers_is_left_alone() -> None:
    few = table(41)
    assert condense(few) is few
    numbers = ViewTable(np.zeros((3, 4, 2, 100), np.float32), torch.zeros(3, 2, 100))
    assert condense(numbers) is numbers


def test_scores_too_large_for_half_precision_stay_finite() -> None:
    large = table(200)
    large.outputs[:] *= 1e5
    assert np.isfinite(condense(large).outputs).all()
