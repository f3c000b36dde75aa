"""Fit φ for a model that stays as it is: test-time augmentation for any pre-trained network."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.augmentation.plan import PlanShape
from instaaug.data.cache import OnProgress
from instaaug.errors import ArgumentError, DataError, ShapeError, UnknownNameError
from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.images import NormalizedImages, TrainingData
from instaaug.frozen.learning import (
    Learning,
    choose_sharpness,
    depends_on_input,
    learn_from_draws,
    learn_from_table,
    view_confidence,
)
from instaaug.frozen.sizes import Sizes, tabulate_sizes
from instaaug.frozen.streaming import (
    MAX_TABLE_BYTES,
    ImageStream,
    OnPlan,
    choose_batch_size,
    learn_from_stream,
    plan_table,
    split_progress,
)
from instaaug.frozen.table import (
    FrozenViews,
    ViewTable,
    all_views,
    can_tabulate,
    check_table,
    condense,
    tabulate,
)
from instaaug.frozen.validation import GAP, Validation, order_for_all, validate
from instaaug.functional.warp import PaddingMode
from instaaug.networks import NETWORKS, FeatureNetwork, FrozenFeatures
from instaaug.networks.model_interface import Output, device_of, evaluation_mode
from instaaug.objectives import Band, Loss, ViewObjective
from instaaug.parameterizations import CropGrid
from instaaug.transforms import Crop, Transform

__all__ = ["DEFAULT_CROPS", "Features", "fit_tta", "make_loss"]


DEFAULT_CROPS = Crop(levels=((1.0, 1), (0.8, 2), (0.6, 3), (0.4, 4)), max_outside=0.0)
"""The whole image, 4 boxes of 0.8 of its side, 9 of 0.6, 16 of 0.4, none beyond the border."""

Features = str | FeatureNetwork
"""``"model"``, ``"none"``, the name of a network that reads pixels, or a network."""


ROWS_AT_ONCE = 256


def fit_tta(
    model: nn.Module,
    data: TrainingData,
    transform: Transform | str | Sequence[Transform | str] = DEFAULT_CROPS,
    *,
    n_samples: int | Sequence[int] = (2, 4, 10),
    objective: ViewObjective | None = None,
    features: Features = "model",
    size: int | tuple[int, int] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    output: Output | None = None,
    loss: Loss | None = None,
    merge: Literal["logit", "confidence", "auto"] = "auto",
    sharpness: float | None = None,
    dense: bool = False,
    entropy: Band | Mapping[str, Band] | None = None,
    grid: CropGrid | None = None,
    padding_mode: PaddingMode = "zeros",
    sizes: Sizes = "auto",
    steps: int = 400,
    batch_size: int | None = None,
    learning_rate: float = 3e-3,
    seed: int = 0,
    folder: str | Path | None = None,
    table: ViewTable | None = None,
    max_table_bytes: int = MAX_TABLE_BYTES,
    passes: float = 1.0,
    on_plan: OnPlan | None = None,
    on_progress: OnProgress | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> InstaAug:
    """Learn, for a fixed model, which views of an input to average; the model is not changed.

    Crops, flips and other choices from a table: the model is run once on every choice of every
    image; from these outputs φ learns with the exact gradient, in seconds. Ranges (rotation,
    color): φ learns from draws through the frozen model.

    Arguments:
        model: Any module; parameters, buffers and mode are afterwards what they were.
        data: Labeled images that the model was, if possible, not trained on: a pair of tensors, a
            ``Dataset`` or a ``DataLoader``.
        transform: What views there may be; 30 boxes by default.
        n_samples: How many views will be averaged, the image itself among them. Several numbers
            give one order of views that serves them all.
        objective: ``"views"`` minimizes the loss of the mean over that many views; ``"ensemble"``
            that of the mean under p(θ|x), for very many; ``"single"`` the mean loss of a single
            view, within an entropy band, as in the paper. Ranges know only ``"single"``.
        features: What φ reads: ``"model"``, the frozen model's own features of the whole image,
            which need few images and no extra pass; ``"glance"``, ``"pyramid"``,
            ``"preact_resnet18"`` or another network, pixels; ``"none"``, one distribution for all.
        size: Side, or height and width, that the model takes. Larger images keep their detail in
            crops, up to twice the side.
        mean: Per-channel mean that images in [0, 1] are to be normalized with.
        std: Per-channel standard deviation that images in [0, 1] are to be normalized with.
        output: Picks the tensor out of what the model returns.
        loss: One loss per input from outputs and targets; cross-entropy by default.
        merge: How outputs of views become one: ``"logit"``, their mean; ``"confidence"``, with
            weights that fall with the entropy of each prediction; ``"auto"``, whichever makes
            random views of these images more likely to be right. Other outputs than class scores
            are averaged plainly.
        sharpness: How much confidence counts; chosen by the same likelihood if absent.
        dense: Whether the model returns maps ``(N, C, h, w)``. Targets are maps of labels, and
            those of the model are brought back onto the image in their resolution; what a view
            does not cover is taken from the whole image's map. Use ``aug.wrap(dense=True)``.
        entropy: The band in nats for ``"single"``: one for all factors, or one each by name.
        grid: Boxes that take the place of the transform's own levels.
        padding_mode: What lies outside of the image.
        sizes: Other sides that the whole image is shown to the model in. A smaller one may come
            first and be enough for easy images; a larger one may be better than views, and the
            fit says so. ``"auto"`` tries some that the model takes, from 96 pixels on, unless a
            ``table`` is given.
        steps: Steps of the optimizer.
        batch_size: Images per step; by default 256 of a table, 32 to 256 of a stream, so that it
            gives as many steps as the table, and 32 of draws.
        learning_rate: Of Adam; it falls to zero.
        seed: Decides the start and the order of images.
        folder: Where to keep the table, so that an interrupted fit goes on, and the next fit with
            other settings need not run the model again.
        table: Made before by :func:`~instaaug.frozen.tabulate`, for the images of ``data``; the
            model is then not run at all.
        max_table_bytes: Room for a table. If all images would take more, the table holds as many
            as fit, drawn at random, and φ goes on to learn from all images in a stream, whose
            outputs are not kept.
        passes: Times that each image is streamed; 0.1 streams a random tenth of them.
        on_plan: Called with what the table will hold, if it cannot hold all.
        on_progress: Called with the number of images whose views the model has seen, and of all
            images; an image that is tabulated and streamed counts twice.
        on_step: Called with the number of steps taken and the loss.

    Returns:
        An augmenter: ``aug.wrap(model, n_samples=10)`` is the model with test-time augmentation.

    Example:
        >>> from instaaug.networks import PreActResNet18
        >>> model = PreActResNet18(10, width=0.0625).eval()
        >>> images, labels = torch.rand(8, 3, 32, 32), torch.arange(8)
        >>> aug = fit_tta(model, (images, labels), Crop(((1.0, 1), (0.5, 2))), steps=5)
        >>> aug.wrap(model, n_samples=3)(images).shape
        torch.Size([8, 10])
    """
    sizes = () if table is not None and sizes == "auto" else sizes
    images = NormalizedImages(data, mean=mean, std=std)
    channels, *own_size = images.image_shape
    height, width = own_size if size is None else (size, size) if isinstance(size, int) else size
    with freeze(model), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _make_network(features, model, (channels, height, width), output)
        aug = InstaAug(
            transform,
            entropy=entropy,
            conditioning="none" if features == "none" else "input",
            network=network,
            in_channels=channels,
            baseline="batch",  # the losses of all views are known: nothing is to be predicted
            grid=grid,
            mean=mean,
            std=std,
            padding_mode=padding_mode,
            size=size,
            keep_original=True,
            select="top",
        ).to(device_of(model))
        tabulated = can_tabulate(aug)
        learning = Learning(
            objective=_choose_objective(objective, tabulated=tabulated),
            n_views=_view_counts(n_samples),
            loss=make_loss(loss, dense=dense),
            steps=steps,
            batch_size=(256 if tabulated else 32) if batch_size is None else batch_size,
            learning_rate=learning_rate,
            seed=seed,
            on_step=on_step,
        )
        map_size = _map_size(images, merge, tabulated=tabulated) if dense else None
        if not tabulated:
            _check_no_table(table)
            learn_from_draws(aug, model, images, learning, output)
            return aug.eval()
        reader = network if isinstance(network, FrozenFeatures) else None
        views = FrozenViews(
            model, aug.transform, _list_views(aug), reader, output, padding_mode, map_size
        )
        kept_in = None if folder is None else Path(folder)
        condensed = loss is None and not dense and learning.objective != "single"
        stream = None
        on_stream = on_progress
        if table is None:
            part = plan_table(views, images, max_bytes=max_table_bytes, seed=seed)
            if part is not None:
                at_once = batch_size or choose_batch_size(passes * len(images), steps)
                stream = ImageStream(views, images, passes, condensed, at_once)
                images = images.subset(part.rows)
                if on_plan is not None:
                    on_plan(part)
            on_table, on_stream = split_progress(on_progress, len(images), stream)
            table = tabulate(
                views, images, folder=kept_in, loss=learning.loss, on_progress=on_table
            )
        check_table(table, views, images, loss=learning.loss)
        if loss is None and not dense:
            learning = _merge_by_confidence(aug, table, learning, merge, sharpness)
        honest = replace(table, calibration=aug.calibration)
        small = condense(honest) if condensed else table
        found = None
        if learning.objective == "views":
            found = _order_views(
                aug, table, small, images, learning,
                lambda: tabulate_sizes(views, images, sizes, folder=kept_in),
            )  # fmt: skip
        if stream is None or not depends_on_input(aug):
            learn_from_table(aug, small, images, learning)
        else:
            learn_from_stream(
                aug, small, images, stream, learning, folder=kept_in, on_progress=on_stream
            )
        _apply(found, aug)
    return aug.eval()


def _order_views(
    aug: InstaAug,
    table: ViewTable,
    small: ViewTable,
    images: NormalizedImages,
    learning: Learning,
    find_wholes: Callable[[], Mapping[int, ViewTable]],
) -> Validation | None:
    """Order views for all images, after cross-validation if the outputs are class scores."""
    plan = aug.set_plan(PlanShape(table.outputs.shape[1] - 1))
    found = None
    if learning.loss is _cross_entropy:
        size = (aug.transform.size or images.image_shape[1:])[0]
        found = validate(aug, table, small, images, learning, sizes=find_wholes(), size=size)
    honest = replace(table, calibration=aug.calibration)
    plan.set_order(order_for_all(honest, learning), gap=GAP)
    return found


def _apply(found: Validation | None, aug: InstaAug) -> None:
    """Let the augmenter do what cross-validation found best."""
    aug.validation = found
    if found is None or aug.plan is None:
        return
    order = aug.plan.order
    stop = found.stop
    preview = found.preview
    whole = found.whole
    shape = PlanShape(
        n_others=len(order), n_stages=stop.n_stages, n_prices=len(stop.mean_cost),
        preview=0 if preview is None else preview.size, n_views=found.n_views,
        whole=0 if whole is None else whole.size,
    )  # fmt: skip
    plan = aug.set_plan(shape)
    plan.order.copy_(order)
    plan.whole_factor.fill_(1.0 if whole is None else whole.factor)
    plan.preview_factor.fill_(1.0 if preview is None else preview.factor)
    plan.dependence.fill_(found.dependence)
    assert plan.stop is not None  # noqa: S101  # the shape has one
    plan.stop.load_state_dict(stop.state_dict())


def _merge_by_confidence(
    aug: InstaAug, table: ViewTable, learning: Learning, merge: str, sharpness: float | None
) -> Learning:
    """Tell the augmenter how views are merged, and learn under the same rule."""
    if merge == "logit":
        return learning
    index = torch.arange(len(table))
    whole = torch.cat([table.outputs_of(rows)[:, 0] for rows in index.split(ROWS_AT_ONCE)])
    calibration = fit_temperature(whole, table.targets)
    table = replace(table, calibration=calibration)
    if sharpness is None:
        sharpness = choose_sharpness(table, learning.n_views, seed=learning.seed)
        if merge == "auto" and not sharpness:
            return learning
    aug.set_merging("confidence", sharpness, calibration)
    return replace(learning, confidence=view_confidence(table, sharpness))


@contextmanager
def freeze(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and no gradient for any parameter; all as before afterwards."""
    wanted = [(p, p.requires_grad) for p in model.parameters()]
    with evaluation_mode(model):
        try:
            model.requires_grad_(requires_grad=False)
            yield
        finally:
            for parameter, flag in wanted:
                parameter.requires_grad_(flag)


def _make_network(
    features: Features,
    model: nn.Module,
    image_shape: tuple[int, int, int],
    output: Output | None,
) -> FeatureNetwork | str:
    if isinstance(features, nn.Module):
        _check_no_sharing(features, model)
        return features
    known = ("model", "none", *NETWORKS)
    if features not in known:
        raise UnknownNameError("kind of features", str(features), known)
    if features != "model":
        return "pyramid" if features == "none" else features
    channels, *size = image_shape
    return FrozenFeatures(model, size=(size[0], size[1]), in_channels=channels, output=output).to(
        device_of(model)
    )


def _check_no_sharing(features: nn.Module, model: nn.Module) -> None:
    """Raise if φ's network is a part of the model, which learning would change."""
    own = {id(t) for t in (*model.parameters(), *model.buffers())}
    if any(id(t) in own for t in (*features.parameters(), *features.buffers())):
        raise ArgumentError(
            "`features` must not be a part of `model`, which stays as it is: got a network that "
            'shares parameters or buffers with it. Use features="model", or a copy.'
        )


def _choose_objective(objective: ViewObjective | None, *, tabulated: bool) -> ViewObjective:
    if objective is not None and objective not in get_args(ViewObjective):
        raise UnknownNameError("objective", str(objective), get_args(ViewObjective))
    if tabulated:
        return objective or "views"
    if objective in ("views", "ensemble"):
        raise ArgumentError(
            f'`objective="{objective}"` needs views that can be listed: got a transform with a '
            'range, or boxes that move. Use objective="single", or crops and flips without jitter.'
        )
    return "single"


def _view_counts(n_samples: int | Sequence[int]) -> tuple[int, ...]:
    given = (n_samples,) if isinstance(n_samples, int) else tuple(n_samples)
    if not given or min(given) < 2:
        raise ArgumentError(
            f"`n_samples` must be one or more numbers from 2 on: got {n_samples}. The image "
            "itself is the first view; with one view there is nothing to choose."
        )
    return given


def _map_size(images: NormalizedImages, merge: str, *, tabulated: bool) -> tuple[int, int]:
    """Height and width of the targets of a model that returns maps; raise if it cannot work."""
    if merge == "confidence":
        raise ArgumentError(
            '`merge` must be "logit", or "auto", which is the same, for dense=True: got '
            f"{merge!r}. Any rule can be given to aug.wrap afterwards."
        )
    if not tabulated:
        raise ArgumentError(
            "`transform` must offer views that can be listed for dense=True: got a range, or "
            "boxes that move. Use crops and flips without jitter."
        )
    shape = images.at(torch.arange(1))[1].shape
    if len(shape) < 3:
        raise ShapeError(
            "`data` must give a map of targets per image, (..., H, W), for dense=True: got "
            f"targets of shape {tuple(shape[1:])}. Leave dense out for class numbers."
        )
    return shape[-2], shape[-1]


def _check_no_table(table: ViewTable | None) -> None:
    if table is not None:
        raise ArgumentError(
            "`table` is of no use to a transform with a range, or boxes that move: got one. Leave "
            "it out, or use crops and flips without jitter."
        )


def _list_views(aug: InstaAug) -> Float[Tensor, "k d"]:
    """All views; raise unless there is a choice."""
    views = all_views(aug)
    if len(views) < 2:
        raise ArgumentError(
            "`transform` must offer a view besides the image itself: got none. Add levels to the "
            "crops, or another transform."
        )
    return views


def make_loss(loss: Loss | None, *, dense: bool = False) -> Loss:
    """The user's loss, which must have one number per input; cross-entropy if there is none.

    Arguments:
        loss: The user's.
        dense: Whether outputs and targets are maps, over which cross-entropy is averaged.
    """
    if loss is None:
        return _mean_cross_entropy if dense else _cross_entropy

    def one_per_input(outputs: Tensor, targets: Tensor) -> Tensor:
        values = loss(outputs, targets)
        if values.shape != outputs.shape[:1]:
            raise ShapeError(
                f"`loss` must give one number per input, shape ({len(outputs)},): got "
                f'{tuple(values.shape)}. Use reduction="none", and average over all other axes.'
            )
        return values

    return one_per_input


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    if outputs.ndim != 2 or targets.ndim != 1 or targets.is_floating_point():
        raise ShapeError(
            "`model` must return class scores (N, C) and `data` give a whole number per image for "
            f"cross-entropy: got outputs {tuple(outputs.shape)}, and targets "
            f"{tuple(targets.shape)} of {targets.dtype}. Give another `loss`."
        )
    _check_classes(outputs, targets)
    return F.cross_entropy(outputs, targets.long(), reduction="none")


def _mean_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of the pixels of each input."""
    if (len(outputs), *outputs.shape[2:]) != targets.shape or targets.is_floating_point():
        raise ShapeError(
            "`model` must return class scores (N, C, h, w) and `data` give a whole number per "
            f"pixel for cross-entropy: got outputs {tuple(outputs.shape)}, and targets "
            f"{tuple(targets.shape)} of {targets.dtype}. Give another `loss`."
        )
    _check_classes(outputs, targets)
    return F.cross_entropy(outputs, targets.long(), reduction="none").flatten(1).mean(dim=1)


def _check_classes(outputs: Tensor, targets: Tensor) -> None:
    low, high = (int(end) for end in targets.aminmax())
    if low < 0 or high >= outputs.shape[1]:
        raise DataError(
            f"`data` must give classes from 0 to {outputs.shape[1] - 1}, for the model has "
            f"{outputs.shape[1]}: got targets from {low} to {high}. Number them as the model does."
        )
