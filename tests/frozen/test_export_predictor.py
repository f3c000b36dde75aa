"""A whole predictor as a file: it says what the predictor says, for any number of images."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instaaug import InstaAug, fit_tta
from instaaug import transforms as T
from instaaug.augmentation.at_test_time import TestTimeAugmentation
from instaaug.augmentation.plan import ResizedImage
from instaaug.errors import ArgumentError
from instaaug.frozen import export_predictor
from instaaug.frozen.export_predictor import TracedPredictor
from instaaug.frozen.program import METADATA, ExportError
from tests.support.models import OwnNetwork, images, small_classifier

LEVELS = ((1.0, 1), (0.5, 2))


def augmenter(**settings: Any) -> InstaAug:
    torch.manual_seed(0)
    aug = InstaAug(
        [T.Crop(levels=LEVELS), T.Flip()],
        **{"network": OwnNetwork(), "size": (16, 16), **settings},
    )
    for p in aug.phi.heads.parameters():  # heads start nearly blind; let the input decide
        p.data += torch.randn_like(p)
    return aug.eval()


def read_pt2(path: Path) -> tuple[Any, dict[str, Any]]:
    extra = {METADATA: ""}
    module = torch.export.load(path, extra_files=extra).module()
    return module, json.loads(extra[METADATA])


@pytest.mark.parametrize("merge", ["logit", "probability", "weighted", "confidence"])
@pytest.mark.parametrize("keep_original", [True, False])
def test_a_traced_predictor_says_what_the_predictor_says(merge: Any, keep_original: bool) -> None:
    """Views that a table lists are ranked, rendered and merged alike, with the temperature."""
    aug = augmenter(keep_original=keep_original)
    model = small_classifier().eval()
    settings: dict[str, Any] = {"merge": merge, "temperature": 2.0}
    predictor = aug.wrap(model, 1 + keep_original, select="top", **settings).eval()
    x = images(3, height=20, width=20)
    with torch.no_grad():
        torch.testing.assert_close(
            TracedPredictor(predictor)(x)["logits"], predictor(x), atol=1e-5, rtol=0
        )


def test_a_fitted_predictor_is_written_with_its_order_and_its_rule(tmp_path: Path) -> None:
    model = small_classifier().eval()
    x, y = images(48, height=24, width=24), torch.arange(48) % 3
    aug = fit_tta(
        model, (x, y), T.Crop(levels=LEVELS, max_outside=0.0), size=16, steps=3, sizes=(),
        merge="confidence", sharpness=1.0,
    )  # fmt: skip
    predictor = aug.wrap(model, 3, temperature=1.5).eval()
    found = export_predictor(predictor, tmp_path / "m.pt2", x[:2], classes=("a", "b", "c"))
    module, told = read_pt2(tmp_path / "m.pt2")
    with torch.no_grad():
        for some in (x[:1], x[:5]):
            torch.testing.assert_close(module(some)["logits"], predictor(some), atol=1e-4, rtol=0)
    assert found < 1e-4
    assert (told["views"], told["merge"], told["classes"]) == (3, "confidence", ["a", "b", "c"])
    aug.save(tmp_path / "aug.safetensors")
    again = InstaAug.load(tmp_path / "aug.safetensors", model=model).eval()
    torch.testing.assert_close(again.wrap(model, 3, temperature=1.5).eval()(x), predictor(x))


@pytest.mark.slow
def test_onnxruntime_says_the_same(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    predictor = augmenter().wrap(small_classifier().eval(), 3, select="top").eval()
    x = images(2, height=20, width=20)
    export_predictor(predictor, tmp_path / "m.onnx", x)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    more = images(5, height=20, width=20, seed=3)
    (logits,) = session.run(["logits"], {"images": more.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(logits), predictor(more), atol=1e-4, rtol=0)


def test_drawn_views_are_drawn_once_for_all(tmp_path: Path) -> None:
    """A file cannot draw; its noise is Gumbel's, so that the largest sums are a draw."""
    aug = augmenter(keep_original=False)
    predictor = aug.wrap(small_classifier().eval(), 3).eval()
    traced = TracedPredictor(predictor)
    assert traced.views is not None
    assert len(traced.views.noise.unique()) == len(traced.views.noise) == 10
    x = images(2, height=20, width=20)
    theta, _ = traced.views(x)
    best = TracedPredictor(aug.wrap(predictor.model, 3, select="top")).views
    assert best is not None
    assert not torch.equal(theta, best(x)[0])
    assert all(len(rows.unique(dim=0)) == 3 for rows in theta.unbind(1))
    export_predictor(predictor, tmp_path / "m.pt2", x)
    module, _ = read_pt2(tmp_path / "m.pt2")
    torch.testing.assert_close(module(x)["logits"], traced(x)["logits"], atol=1e-5, rtol=0)


def test_the_noise_is_gumbels() -> None:
    """Its mean over 321 boxes is Euler's constant; 4 standard errors, p = 6e-5."""
    aug = InstaAug(T.Crop(), conditioning="none", keep_original=False)
    views = TracedPredictor(aug.wrap(small_classifier(), 2, select="sample")).views
    assert views is not None
    assert len(views.noise) == 321
    assert abs(float(views.noise.mean()) - 0.5772) < 4 * 1.2825 / 321**0.5


def test_a_larger_image_and_normalization_go_along(tmp_path: Path) -> None:
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 3)).eval()
    whole = ResizedImage(12, 0.5)
    predictor = TestTimeAugmentation(augmenter(), pooled, 1, whole=whole, temperature=2.0).eval()
    x = images(2, height=20, width=20).clamp(0, 1)
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
    export_predictor(predictor, tmp_path / "m.pt2", x, mean=mean, std=std)
    module, told = read_pt2(tmp_path / "m.pt2")
    normalized = (x - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    with torch.no_grad():
        torch.testing.assert_close(module(x)["logits"], predictor(normalized), atol=1e-5, rtol=0)
    assert told["views"] == 1


@pytest.mark.parametrize("settings", [{"certainty": 0.9}, {"mean_views": 2.0}])
def test_a_file_cannot_stop_early(settings: Any, tmp_path: Path) -> None:
    predictor = augmenter().wrap(small_classifier(), 3, **settings)
    with pytest.raises(ArgumentError, match="cannot stop early"):
        export_predictor(predictor, tmp_path / "m.pt2", images(2))


def test_ranges_cannot_be_listed(tmp_path: Path) -> None:
    predictor = InstaAug(T.Rotation(), conditioning="none").wrap(small_classifier(), 3)
    with pytest.raises(ArgumentError, match="from a table of crops or flips"):
        export_predictor(predictor, tmp_path / "m.pt2", images(2))


def test_a_model_that_decides_by_values_is_refused(tmp_path: Path) -> None:
    class Deciding(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :4] if float(x.sum()) > 0 else x.flatten(1)[:, 4:8]

    predictor = augmenter().wrap(Deciding(), 2, select="top").eval()
    with pytest.raises(ExportError, match="cannot trace it"):
        export_predictor(predictor, tmp_path / "m.pt2", images(2, height=20, width=20))
    assert not list(tmp_path.iterdir())
