"""φ as a file: read back by other means, it answers as φ does, for any number of images."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.distributions import FiniteTheta, UniformBox
from instaaug.errors import ArgumentError, NonFiniteError, ShapeError
from instaaug.frozen import program
from instaaug.frozen.export import export_phi
from instaaug.frozen.program import METADATA, ExportError, MissingOnnxError
from instaaug.networks import FrozenFeatures
from tests.support.models import OwnNetwork, images, small_classifier

LEVELS = ((1.0, 1), (0.5, 2))
Reader = tuple[Callable[[Tensor], dict[str, Tensor]], dict[str, Any]]


def augmenter(*transforms: T.Transform, **settings: Any) -> InstaAug:
    torch.manual_seed(0)
    aug = InstaAug(list(transforms), **{"network": OwnNetwork(), **settings})
    for p in aug.phi.heads.parameters():  # heads start nearly blind; let the input decide
        p.data += torch.randn_like(p)
    return aug


def read_pt2(path: Path) -> Reader:
    extra = {METADATA: ""}
    phi = torch.export.load(path, extra_files=extra).module()
    return phi, json.loads(extra[METADATA])


def read_onnx(path: Path) -> Reader:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(x: Tensor) -> dict[str, Tensor]:
        outputs = session.run(None, {"images": x.numpy()})
        return {name: torch.as_tensor(o) for name, o in zip(names, outputs, strict=True)}

    return run, json.loads(session.get_modelmeta().custom_metadata_map[METADATA])


def expected(aug: InstaAug, x: Tensor) -> dict[str, Tensor]:
    values = {}
    for name, factor in aug.eval().distribution(x).factors.items():
        if isinstance(factor, FiniteTheta):
            values[f"{name}.log_probs"] = factor.logits
        elif isinstance(factor, UniformBox):
            values |= {f"{name}.low": factor.low, f"{name}.high": factor.high}
    return {name: value.detach() for name, value in values.items()}


@pytest.fixture(scope="module", params=["pt2", "onnx"])
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[InstaAug, Reader]:
    if request.param == "onnx":
        pytest.importorskip("onnxscript")
    aug = augmenter(T.Crop(levels=LEVELS, jitter=True), T.Rotation(), size=(12, 16))
    path = tmp_path_factory.mktemp("phi") / f"phi.{request.param}"
    assert export_phi(aug, path, images(1, height=20, width=18)) < 1e-5
    return aug, read_pt2(path) if request.param == "pt2" else read_onnx(path)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_the_file_answers_as_phi_does(exported: tuple[InstaAug, Reader], batch: int) -> None:
    aug, (phi, _) = exported
    x = images(batch, height=20, width=18, seed=batch)
    outputs, wanted = phi(x), expected(aug, x)
    assert list(outputs) == ["crop.log_probs", "rotation.low", "rotation.high"]
    assert {name: o.shape for name, o in outputs.items()} == {
        "crop.log_probs": (batch, 5), "rotation.low": (batch, 1), "rotation.high": (batch, 1)
    }  # fmt: skip
    for name, value in wanted.items():
        torch.testing.assert_close(outputs[name], value, atol=1e-5, rtol=0)


def test_the_outputs_depend_on_the_input(exported: tuple[InstaAug, Reader]) -> None:
    _, (phi, _) = exported
    log_probs = phi(images(2, height=20, width=18))["crop.log_probs"]
    assert (log_probs[0] - log_probs[1]).abs().max() > 0.01


def test_the_metadata_suffice_to_use_it_elsewhere(exported: tuple[InstaAug, Reader]) -> None:
    """Boxes and ranges are found without a line of this library."""
    aug, (phi, told) = exported
    x = images(3, height=20, width=18)
    outputs, crop = phi(x), told["factors"]["crop"]
    best = torch.tensor(crop["table"])[outputs["crop.log_probs"].argmax(dim=1)]
    torch.testing.assert_close(best, aug.draw(x, 1, select="top")[0, :, :4])
    assert crop["columns"] == ["box_x", "box_y", "box_width", "box_height"]
    assert (len(crop["cells"]), len(crop["center_limits"])) == (5, 5)
    assert told["factors"]["rotation"] == {
        "columns": ["angle"], "kind": "interval", "low": [-torch.pi], "high": [torch.pi],
        "identity": [0.0], "period": [2 * torch.pi], "multiplicative": [False],
    }  # fmt: skip
    assert (told["size"], told["padding_mode"], told["keep_original"]) == (
        [12, 16],
        "zeros",
        False,
    )
    assert told["input"] == {"name": "images", "shape": ["batch", 3, 20, 18]}
    assert [part["name"] for part in told["transform"]["transforms"]] == ["crop", "rotation"]


@pytest.mark.parametrize(
    "settings",
    [
        {"conditioning": "none"},
        {"network": "pyramid", "width": 0.25},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_every_kind_of_phi_can_be_written(settings: dict[str, Any], tmp_path: Path) -> None:
    aug = augmenter(T.Crop(levels=LEVELS), T.Flip(), **settings)
    export_phi(aug, tmp_path / "phi.pt2", images(2))
    phi, told = read_pt2(tmp_path / "phi.pt2")
    x = images(3, seed=1)
    for name, value in expected(aug, x).items():
        torch.testing.assert_close(phi(x)[name], value, atol=1e-5, rtol=0)
    assert told["factors"]["flip"]["kind"] == "choices"


@pytest.mark.parametrize("ending", ["pt2", pytest.param("onnx", marks=pytest.mark.slow)])
def test_a_model_that_phi_reads_goes_along(ending: str, tmp_path: Path) -> None:
    """With its own running statistics, and for more images than are looked at in one go."""
    if ending == "onnx":
        pytest.importorskip("onnxscript")
    model = small_classifier()
    model(images(8))  # moves the running statistics
    state = {name: value.clone() for name, value in model.state_dict().items()}
    path = tmp_path / f"phi.{ending}"
    aug = augmenter(T.Crop(levels=LEVELS), network=FrozenFeatures(model, size=16))
    export_phi(aug, path, images(2))
    assert all(part.training for part in model.modules())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    phi, _ = read_pt2(path) if ending == "pt2" else read_onnx(path)
    model.eval()
    x = images(40, seed=1)
    found, wanted = phi(x)["crop.log_probs"], expected(aug, x)["crop.log_probs"]
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_the_augmenter_is_left_as_it_was(tmp_path: Path) -> None:
    aug = augmenter(T.Rotation()).train()
    assert isinstance(aug.phi.network, OwnNetwork)
    aug.phi.network.coarse.eval()
    state = {name: value.clone() for name, value in aug.state_dict().items()}
    export_phi(aug, tmp_path / "phi.pt2", images(2))
    assert aug.training
    assert aug.phi.network.fine.training
    assert not aug.phi.network.coarse.training
    assert all(torch.equal(value, state[name]) for name, value in aug.state_dict().items())
    assert [path.name for path in tmp_path.iterdir()] == ["phi.pt2"]


@pytest.mark.parametrize(("wrong", "said"), [(1e-2, r"0\.00\d+"), (float("nan"), "nan")])
def test_a_file_that_disagrees_is_not_kept(
    wrong: float, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def liar(data: bytes) -> Callable[[Tensor], dict[str, Tensor]]:
        honest = torch.export.load(io.BytesIO(data)).module()

        def run(x: Tensor) -> dict[str, Tensor]:  # lies to batches of another size alone
            error = wrong if len(x) > 2 else 0.0
            return {name: o + error for name, o in honest(x).items()}

        return run

    monkeypatch.setattr(program, "_pt2_runner", liar)
    path = tmp_path / "phi.pt2"
    path.write_text("what was here before")
    words = f"'rotation.low' differs by {said} for 3 images, but `tolerance` is 0.0001"
    with pytest.raises(ExportError, match=words):
        export_phi(augmenter(T.Rotation(), conditioning="none"), path, images(2))
    assert path.read_text() == "what was here before"
    assert len(list(tmp_path.iterdir())) == 1


class Hesitant(OwnNetwork):
    """Decides by what it sees, which no graph can hold."""

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        return super().forward(-x if x.sum() > 0 else x)


def test_a_network_that_decides_by_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="must not decide by the values that it sees"):
        export_phi(augmenter(T.Rotation(), network=Hesitant()), tmp_path / "a.pt2", images(2))
    assert not list(tmp_path.iterdir())


COUNTING = """
import sys, torch
from torch import nn
from instaaug import InstaAug
from instaaug.frozen.export import export_phi
from instaaug.frozen.program import METADATA, ExportError, MissingOnnxError
from instaaug.transforms import Rotation

class Counting(nn.Conv2d):
    def forward(self, x):
        return [super().forward(x.reshape(len(x), *x.shape[1:]))]

aug = InstaAug(Rotation(), network=Counting(3, 4, 3))
export_phi(aug, sys.argv[1], torch.rand(2, 3, 8, 8))
"""


@pytest.mark.slow  # starts Python anew
def test_a_network_that_counts_its_inputs_is_understood(tmp_path: Path) -> None:
    """Models in the wild ask for len(x). Without the shape checker, which cannot be traced."""
    path = tmp_path / "phi.pt2"
    command = [sys.executable, "-W", "error", "-c", COUNTING, str(path)]
    result = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert read_pt2(path)[0](images(5, height=8, width=8))["rotation.low"].shape == (5, 1)


def test_phi_of_classes_is_refused(tmp_path: Path) -> None:
    """Nothing that was learned would be used: at test time no class is known."""
    aug = augmenter(T.Flip(), conditioning="class", num_classes=3)
    with pytest.raises(ArgumentError, match=r'`aug` must choose without the class.*"class"'):
        export_phi(aug, tmp_path / "phi.pt2", images(2))


@pytest.mark.parametrize("name", ["phi.pt", "phi", "phi.onnx.bak"])
def test_the_ending_must_name_a_format(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"`path` must end in .onnx or .pt2.*got '.*phi"):
        export_phi(augmenter(T.Rotation()), tmp_path / name, images(2))


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "find_spec", lambda name: None if name == "onnxscript" else name)
    words = r"not installed: onnxscript. Run: pip install 'instaaug\[export\]'"
    with pytest.raises(MissingOnnxError, match=words):
        export_phi(augmenter(T.Rotation()), tmp_path / "phi.onnx", images(2))
    export_phi(augmenter(T.Rotation(), conditioning="none"), tmp_path / "phi.pt2", images(2))


def test_bad_arguments_are_refused_at_the_door(tmp_path: Path) -> None:
    aug, path = augmenter(T.Rotation()), tmp_path / "phi.pt2"
    with pytest.raises(ArgumentError, match="`tolerance` must be above 0: got"):
        export_phi(aug, path, images(2), tolerance=0.0)
    with pytest.raises(ShapeError, match="`x` must have 3 channels: got 1"):
        export_phi(aug, path, images(2, channels=1))
    with pytest.raises(NonFiniteError, match="`x` must be finite"):
        export_phi(aug, path, images(2) / 0)
    with pytest.raises(ArgumentError, match=r"on the CPU.*got cpu, meta. Call .cpu\(\)"):
        export_phi(aug, path, images(2).to("meta"))
    with pytest.raises(ArgumentError, match="got cpu, meta"):
        export_phi(_elsewhere(aug), path, images(2))
    assert not path.exists()


def _elsewhere(aug: InstaAug) -> InstaAug:
    aug.phi.heads = nn.ModuleList(head.to("meta") for head in aug.phi.heads)
    return aug
