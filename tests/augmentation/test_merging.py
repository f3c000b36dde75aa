"""How outputs become one: every rule against a naive loop, for whatever kind of model."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation.at_test_time import Merge, Merging
from instaaug.augmentation.views import Select
from instaaug.errors import ArgumentError
from instaaug.methods import RandomAugmentation
from instaaug.parameterizations import Conditioning
from tests.support.models import CountingNetwork, images, small_classifier
from tests.support.shifted import Shifted, loose_classifier
from tests.support.unhooked import unhooked

RULES = pytest.mark.parametrize("merge", get_args(Merge))
CHUNKS = pytest.mark.parametrize("chunk_size", [1, 4, None])
CROP = T.Crop(levels=((1.0, 1), (0.5, 4)))
N, BATCH = 6, 5


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def weights(n: int = N, batch: int = BATCH) -> Tensor:
    return torch.rand(n, batch, generator=torch.Generator().manual_seed(7))


def naive_merge(
    outputs: list[Tensor], weight: list[float], merge: Merge, temperature: float = 1.0
) -> Tensor:
    """One output for one input, from a list of (C,) and of numbers."""
    if merge == "probability":
        mean = sum((o.softmax(dim=0) for o in outputs), torch.zeros(())) / len(outputs)
        powers = mean ** (1 / temperature)
        return (powers / powers.sum()).log()
    counted = weight if merge == "weighted" else [1.0] * len(outputs)
    if merge == "confidence":
        entropies = [-(o.softmax(0) * o.log_softmax(0)).sum().detach() for o in outputs]
        counted = [math.exp(-float(h)) for h in entropies]
    weighed = sum((w * o for w, o in zip(counted, outputs, strict=True)), torch.zeros(()))
    return weighed / sum(counted) / temperature


def naive(
    model: Callable[[Tensor], Tensor], x: Tensor, theta: Tensor, weight: Tensor, **rule: Any
) -> Tensor:
    """All inputs, one image at a time."""
    rows = []
    for i in range(len(x)):
        outputs = [model(x[i : i + 1] + shift)[0] for shift in theta[:, i, :, None, None]]
        rows.append(naive_merge(outputs, weight[:, i].tolist(), **rule))
    return torch.stack(rows)


# --- the rules ----------------------------------------------------------------------------------


@CHUNKS
@RULES
@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("reads_model", [False, True])
def test_every_rule_is_that_of_a_naive_loop(
    merge: Merge, chunk_size: int | None, temperature: float, reads_model: bool
) -> None:
    x, model = images(BATCH), loose_classifier()
    aug = Shifted(weights(), reads_model=reads_model)
    tta = aug.wrap(model, N, merge=merge, chunk_size=chunk_size, temperature=temperature)
    theta = tta.samples(x, seeded())
    expected = naive(model, x, theta, weights(), merge=merge, temperature=temperature)
    torch.testing.assert_close(tta(x, seeded()), expected, atol=1e-5, rtol=1e-5)


@RULES
def test_temperature_changes_no_top_class(merge: Merge) -> None:
    x, aug = images(20), Shifted(weights(N, 20))
    plain, cool, hot = (
        aug.wrap(loose_classifier(), N, merge=merge, temperature=t)(x, seeded()).softmax(dim=1)
        for t in (1.0, 0.4, 2.5)
    )
    assert torch.equal(plain.argmax(dim=1), cool.argmax(dim=1))
    assert torch.equal(plain.argmax(dim=1), hot.argmax(dim=1))
    assert (hot.amax(dim=1) < plain.amax(dim=1)).all()
    assert (plain.amax(dim=1) < cool.amax(dim=1)).all()


def test_without_sharpness_confidence_is_the_plain_mean() -> None:
    x, model = images(BATCH), loose_classifier()
    aug = Shifted(weights())
    plain = aug.wrap(model, N)(x, seeded())
    torch.testing.assert_close(
        aug.wrap(model, N, merge="confidence", sharpness=0.0)(x, seeded()), plain
    )


def test_a_view_that_says_nothing_counts_the_less_the_more_classes_there_are() -> None:
    rule = Merging("confidence", sharpness=2.0)
    sure, unsure = torch.tensor([[100.0, 0.0, 0.0, 0.0]]), torch.zeros(1, 4)
    scores = torch.stack([rule.scores(sure, 1), rule.scores(unsure, 1)])
    ones = torch.ones(2, 1)
    merged = rule.finish(rule.total(scores, ones), ones, torch.tensor([2]))
    share = 1 / (1 + 4**-2)  # exp(-2 log 4) against 1
    torch.testing.assert_close(merged, sure * share)


def test_confidence_is_judged_pixel_by_pixel() -> None:
    maps = torch.rand(3, 2, 5, 4, 4, generator=seeded())
    rule = Merging("confidence")
    ones = torch.ones(3, 2)
    whole = rule.finish(
        rule.total(torch.stack([rule.scores(m, 2) for m in maps]), ones), ones, torch.full((2,), 3)
    )
    one = [naive_merge(list(maps[:, 1, :, 2, 3]), [1.0] * 3, "confidence")]
    torch.testing.assert_close(whole[1, :, 2, 3], one[0])


@pytest.mark.parametrize("sharpness", [-1.0, 11.0, float("nan")])
def test_a_sharpness_that_cannot_weigh_is_refused(sharpness: float) -> None:
    with pytest.raises(ArgumentError, match=r"`sharpness` must lie in \[0, 10\.0\]: got"):
        Merging("confidence", sharpness=sharpness)


def test_without_weights_all_views_count_the_same() -> None:
    x, aug = images(BATCH), Shifted()
    plain, weighted = (
        aug.wrap(loose_classifier(), N, merge=merge)(x, seeded())
        for merge in ("logit", "weighted")
    )
    torch.testing.assert_close(weighted, plain)


@pytest.mark.parametrize("scale", [1e-30, 1e-42, 1e30])
def test_only_the_ratios_of_weights_matter(scale: float) -> None:
    """1e-42 has few digits left in single precision: 700 of the smallest steps."""
    weight = torch.arange(1.0, N + 1)[:, None].expand(N, BATCH)
    one, other = (
        Shifted(w).wrap(loose_classifier(), N, merge="weighted")(images(BATCH), seeded())
        for w in (weight, weight * scale)
    )
    torch.testing.assert_close(one, other, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("certainty", [None, 1.0])
def test_weights_that_underflow_count_the_same(certainty: float | None) -> None:
    """Those of the first input are all zero, those of the second all but the last."""
    weight = torch.zeros(N, 2)
    weight[-1, 1] = 1.0
    x, model = images(2), loose_classifier()
    tta = Shifted(weight).wrap(model, N, merge="weighted", certainty=certainty)
    result = tta(x, seeded())
    outputs = torch.stack([model(x + t[..., None, None]) for t in tta.samples(x, seeded())])
    torch.testing.assert_close(result[0], outputs[:, 0].mean(dim=0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result[1], outputs[-1, 1], atol=1e-5, rtol=1e-5)


def test_images_for_outputs_are_weighed_too() -> None:
    aug = Shifted(weights())
    tta = aug.wrap(nn.Identity(), N, merge="weighted", chunk_size=7)
    x, theta = images(BATCH), aug.draw(images(BATCH), N, generator=seeded())
    share = weights() / weights().sum(dim=0)
    expected = x + (theta[..., 0] * share).sum(dim=0)[:, None, None, None]
    torch.testing.assert_close(tta(x, seeded()), expected)


def test_complex_outputs_keep_their_imaginary_part() -> None:
    class Spectrum(nn.Module):
        @override
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.fft(x.flatten(1))

    tta, x = Shifted().wrap(Spectrum(), N), images(2)
    mean = x + tta.samples(x, seeded()).mean(dim=0)[..., None, None]
    torch.testing.assert_close(tta(x, seeded()), torch.fft.fft(mean.flatten(1)), atol=1e-3, rtol=0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_cannot_divide_is_refused(temperature: float) -> None:
    with pytest.raises(ArgumentError, match=r"`temperature` must be a number above 0: got .*less"):
        Merging(temperature=temperature)


def test_whole_numbers_will_do() -> None:
    with unhooked():
        tta = Shifted().wrap(loose_classifier(), 3, temperature=2, certainty=1, mean_views=2)
        assert tta.outputs_and_counts(images(4))[1].sum() == 8


# --- the weights that InstaAug gives ------------------------------------------------------------


@pytest.mark.parametrize("select", ["sample", "top"])
@pytest.mark.parametrize("jitter", [False, True])
def test_the_weight_of_a_view_is_the_probability_of_what_was_chosen(
    select: Select, jitter: bool
) -> None:
    crop = T.Crop(levels=((1.0, 1), (0.5, 4)), jitter=jitter)
    aug, x = InstaAug([crop, T.Rotation(), T.Flip()]), images(3)
    views = aug.views(x, 4, select=select, generator=seeded())
    joint = aug.distribution(x)
    samples = (
        joint.spread(4) if select == "top" else joint.draw(4, replace=False, generator=seeded())
    )
    assert torch.equal(views.theta, joint.theta(samples))
    assert views.weight is not None
    boxes, flips = (f.logits.softmax(dim=-1) for f in joint.finite().values())
    for j in range(4):
        for i in range(3):
            box = samples[0][j, i, 0] if jitter else samples[0][j, i]
            expected = boxes[i, int(box)] * flips[i, int(samples[2][j, i])]
            torch.testing.assert_close(views.weight[j, i], expected)


@pytest.mark.parametrize("conditioning", ["input", "none"])
def test_without_a_finite_factor_every_weight_is_one(conditioning: Conditioning) -> None:
    aug = InstaAug([T.Rotation(), T.HSVJitter()], conditioning=conditioning)
    assert torch.equal(weight_of(aug), torch.ones(4, 3))
    crops = InstaAug(CROP, conditioning=conditioning)
    assert weight_of(crops).shape == (4, 3)
    assert (weight_of(crops) < 1).all()


def weight_of(aug: InstaAug) -> Tensor:
    weight = aug.views(images(3), 4).weight
    assert weight is not None
    return weight


def test_other_augmenters_have_views_without_weights() -> None:
    views = RandomAugmentation("crop").views(images(3), 4)
    assert views.theta.shape == (4, 3, 4)
    assert views.weight is None
    assert views.first is None


def test_learned_weights_are_those_of_a_naive_loop() -> None:
    x, model = images(4), small_classifier().eval()
    torch.manual_seed(0)
    aug = InstaAug([CROP, T.Rotation(0.5)])
    tta = aug.wrap(model, N, merge="weighted", select="top", chunk_size=7)
    views = aug.views(x, N, select="top")
    assert views.weight is not None
    for i in range(4):
        outputs = [model(aug.render(x[i : i + 1], t[i : i + 1]))[0] for t in views.theta]
        expected = naive_merge(outputs, views.weight[:, i].tolist(), "weighted")
        torch.testing.assert_close(tta(x)[i], expected, atol=1e-5, rtol=1e-5)


def test_weighted_outputs_teach_the_invariance_module() -> None:
    aug = InstaAug(CROP)
    aug.wrap(small_classifier().eval(), N, merge="weighted")(images(2)).sum().backward()
    assert any(p.grad is not None and p.grad.any() for p in aug.phi.parameters())


@RULES
@pytest.mark.parametrize("certainty", [None, 0.9])
def test_phi_sees_every_input_once(merge: Merge, certainty: float | None) -> None:
    network = CountingNetwork()
    aug = InstaAug(CROP, network=network)
    network.n_seen = 0
    aug.wrap(small_classifier().eval(), 10, merge=merge, certainty=certainty)(images(5))
    assert network.n_seen == 5


# --- a view that is known already ---------------------------------------------------------------


class Seen:
    """How many rows a model saw in each call."""

    def __init__(self, model: nn.Module) -> None:
        self.rows: list[int] = []
        model.register_forward_hook(lambda _m, inputs, _out: self.rows.append(len(inputs[0])))


@CHUNKS
@pytest.mark.parametrize("n_samples", [1, 2, N])
@pytest.mark.parametrize("budget", [{}, {"certainty": 1.0}, {"mean_views": 50.0}])
def test_the_first_view_is_not_paid_twice(
    n_samples: int, chunk_size: int | None, budget: dict[str, Any]
) -> None:
    model = loose_classifier()
    seen = Seen(model)
    aug = Shifted(reads_model=True)
    aug.wrap(model, n_samples, chunk_size=chunk_size, **budget)(images(BATCH))
    assert sum(seen.rows) == n_samples * BATCH
    assert max(seen.rows[1:], default=0) <= (chunk_size or 32)


def test_a_known_view_goes_through_the_same_pick() -> None:
    model, x = Packed(lambda z: {"scores": z}), images(BATCH)
    one, other = (
        Shifted(reads_model=reads).wrap(model, N, output=lambda o: o["scores"])(x, seeded())
        for reads in (True, False)
    )
    torch.testing.assert_close(one, other)


# --- models of all kinds ------------------------------------------------------------------------


class Heads(NamedTuple):
    logits: Tensor
    auxiliary: Tensor


class Packed(nn.Module):
    """A classifier that returns its logits in some wrapping."""

    def __init__(self, wrap: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.model, self.wrap = loose_classifier(), wrap

    @override
    def forward(self, x: Tensor) -> object:
        return self.wrap(self.model(x))


@pytest.mark.parametrize(
    ("wrap", "output"),
    [
        (lambda z: {"logits": z}, None),
        (lambda z: {"features": z + 1, "logits": z}, None),
        (lambda z: SimpleNamespace(logits=z, loss=None), None),
        (lambda z: Heads(z, z + 1), None),
        (lambda z: (z, z + 1), None),
        (lambda z: [z, None], None),
        (lambda z: {"scores": z, "logits": z + 1}, lambda o: o["scores"]),
        (lambda z: (z + 1, {"deep": z}), lambda o: o[1]["deep"]),
        (lambda z: z.softmax(dim=1), lambda o: o.log()),
    ],
)
@pytest.mark.parametrize("budget", [{}, {"certainty": 0.99}])
def test_the_logits_are_found_in_what_the_model_returns(
    wrap: Any, output: Any, budget: dict[str, Any]
) -> None:
    x, aug = images(BATCH), Shifted()
    expected = aug.wrap(loose_classifier(), N, merge="probability", **budget)(x, seeded())
    tta = aug.wrap(Packed(wrap), N, merge="probability", output=output, **budget)
    torch.testing.assert_close(tta(x, seeded()), expected, atol=1e-5, rtol=1e-5)


@RULES
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("budget", [{}, {"mean_views": 2.0}])
def test_the_model_sees_its_own_precision_and_outputs_are_merged_in_more(
    merge: Merge, dtype: torch.dtype, budget: dict[str, Any]
) -> None:
    model, x = small_classifier().eval().to(dtype), images(BATCH)
    aug = Shifted(weights(2))
    tta = aug.wrap(model, 2, merge=merge, **budget)
    result = tta(x, seeded())
    assert result.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    views = [x + t[..., None, None] for t in tta.samples(x, seeded())]
    outputs = [model(view.to(dtype)).to(result.dtype) for view in views]
    for i in range(BATCH):
        expected = naive_merge([o[i] for o in outputs], weights(2)[:, i].tolist(), merge)
        torch.testing.assert_close(result[i], expected, atol=1e-6, rtol=1e-5)


def test_a_half_precision_model_serves_a_learned_augmenter() -> None:
    x, aug = images(BATCH), InstaAug([CROP, T.Rotation(0.5)])
    half, single = (
        aug.wrap(m.eval(), N, merge="weighted")(x, seeded())
        for m in (small_classifier().bfloat16(), small_classifier())
    )
    torch.testing.assert_close(half, single, atol=0.05, rtol=0.05)


def test_under_autocast_outputs_are_merged_in_single_precision() -> None:
    tta, x = Shifted().wrap(small_classifier().eval(), N), images(BATCH)
    with torch.autocast("cpu", torch.bfloat16):
        result = tta(x, seeded())
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, tta(x, seeded()), atol=0.1, rtol=0.1)


@pytest.mark.parametrize("budget", [{}, {"certainty": 0.5}])
def test_channels_last_gives_the_same_result(budget: dict[str, Any]) -> None:
    x, aug = images(BATCH), InstaAug(CROP)
    plain = small_classifier().eval()
    last = small_classifier().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    one, other = (
        aug.wrap(model, N, **budget)(inputs, seeded())
        for model, inputs in ((plain, x), (last, x.to(memory_format=torch.channels_last)))
    )
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_a_compiled_model_is_compiled_for_one_size_for_any_and_for_one_row() -> None:
    """Chunks of 32, 28, 8, 7, ... rows; from the second size on the number of rows is open."""
    graphs: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        graphs.append(len(inputs))
        return graph.forward

    torch.compiler.reset()
    model = small_classifier().eval()
    compiled: Any = torch.compile(model, backend=backend)
    aug = Shifted()
    calls: list[tuple[int, dict[str, Any]]] = [
        (40, {}),
        (7, {}),
        (33, {}),
        (40, {"certainty": 0.36}),
        (9, {"mean_views": 2.5}),
        (1, {"certainty": 1.0}),
    ]
    for batch, options in calls:
        x = images(batch)
        eager, fast = (aug.wrap(m, N, **options)(x, seeded()) for m in (model, compiled))
        torch.testing.assert_close(fast, eager)
    assert 1 <= len(graphs) <= 3
