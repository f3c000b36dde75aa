"""Whole files of every kind that is read from outside, made by code."""

import gzip
import io
import json
import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from torch import nn

__all__ = [
    "FUSE",
    "write_arrays",
    "write_checkpoints",
    "write_columns",
    "write_fitted",
    "write_idx",
    "write_pictures",
    "write_policy",
    "write_settings",
    "write_table",
    "write_texts",
    "write_trained",
    "write_transferred",
    "write_trials",
    "write_weights",
]

SIDE = 8
FUSE = "code_ran"
ORIENTATION = 0x0112


class Fuse:
    """Whatever unpickles it runs code, which leaves a file behind.

    Arguments:
        folder: Where to leave it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FUSE

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.path,))


def write_pictures(folder: Path) -> None:
    """One of every format and mode, with an orientation, animated, transparent, huge."""
    noise = np.random.default_rng(0).integers(0, 256, (12, 16, 4), dtype=np.uint8)
    color, gray = Image.fromarray(noise[..., :3]), Image.fromarray(noise[..., 0])
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    for ending in ("png", "jpg", "webp", "gif", "bmp", "tif", "ppm", "jp2", "tga"):
        color.save(folder / f"color.{ending}")
    for ending in ("png", "jpg", "webp", "tif"):
        color.save(folder / f"turned.{ending}", exif=exif)
    for ending in ("png", "gif", "webp", "tif"):
        color.save(folder / f"moving.{ending}", save_all=True, append_images=[color, color])
    for mode in ("1", "L", "P", "LA", "RGBA", "I;16"):
        (gray if mode == "I;16" else Image.fromarray(noise)).convert(mode).save(
            folder / f"mode_{mode.replace(';', '_')}.png"
        )
    for mode in ("F", "I", "I;16", "CMYK", "YCbCr", "LAB"):
        source = gray if mode in ("F", "I", "I;16") else color
        source.convert(mode).save(folder / f"mode_{mode.replace(';', '_')}.tif")
    for mode in ("CMYK", "L"):
        color.convert(mode).save(folder / f"mode_{mode}.jpg", progressive=True)
    for compression in ("tiff_lzw", "tiff_deflate", "jpeg", "packbits"):
        color.save(folder / f"{compression}.tif", compression=compression)
    (folder / "bomb.png").write_bytes(_claim_pixels((folder / "color.png").read_bytes(), 31_623))
    (folder / "wrong_name.png").write_bytes((folder / "color.jpg").read_bytes())
    (folder / "postscript.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n")
    (folder / "pickle.png").write_bytes(pickle.dumps(Fuse(folder)))


def _claim_pixels(png: bytes, side: int) -> bytes:
    """A PNG file that claims so many pixels in height and width."""
    header = b"IHDR" + struct.pack(">II", side, side) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


def write_arrays(folder: Path) -> None:
    """Images and labels as numbers, names, booleans, and as objects that would run code."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (6, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.array([0, 1, 0, 1, 2, 2])
    words = np.array(["cat", "dog", "cat", "dog", "owl", "owl"])
    np.savez(folder / "plain.npz", images=images, labels=labels)
    np.savez_compressed(
        folder / "parts.npz", x_train=images, y_train=words, x_test=images, y_test=words
    )
    np.savez(folder / "floats.npz", x=images / 255, y=labels, classes=np.array(["a", "b", "c"]))
    np.savez_compressed(
        folder / "bomb.npz", images=np.zeros((6, 300, 300, 3), np.uint8), labels=labels
    )
    objects = np.array([Fuse(folder)] * 6, dtype=object)
    np.savez(folder / "objects.npz", images=images, labels=objects)
    (folder / "pickle.npz").write_bytes(pickle.dumps(Fuse(folder)))


def write_columns(folder: Path) -> None:
    """Images in one file and labels beside it."""
    random = np.random.default_rng(0)
    np.save(folder / "images.npy", random.integers(0, 256, (6, SIDE, SIDE, 3), dtype=np.uint8))
    np.save(folder / "labels.npy", np.array([0, 1, 0, 1, 2, 2]))
    np.save(folder / "x.npy", random.random((6, SIDE, SIDE)))
    np.save(folder / "y.npy", np.array([Fuse(folder)] * 6, dtype=object), allow_pickle=True)


def write_table(folder: Path) -> None:
    """Tables of image files, which lie beside them."""
    for i in range(4):
        Image.new("RGB", (SIDE, SIDE), (60 * i, 0, 0)).save(folder / f"{i}.bmp")
    rows = "".join(
        f"{i}.bmp,{'cat' if i % 2 else 'dog'},{'train' if i < 3 else 'test'}\n" for i in range(4)
    )
    (folder / "commas.csv").write_text(f"path,label,split\n{rows}")
    (folder / "tabs.csv").write_text(f"path,label,split\n{rows}".replace(",", "\t"))
    (folder / "plain.csv").write_text('file;class\n0.bmp;"a\nb"\n1.bmp;b\n2.bmp;b\n3.bmp;b\n')


def write_idx(folder: Path) -> None:
    """A file of images and one of labels in the format of MNIST, packed and unpacked."""
    pixels = bytes(range(256))[: 3 * SIDE * SIDE]
    images = struct.pack(">IIII", 0x0803, 3, SIDE, SIDE) + pixels
    (folder / "images.idx3").write_bytes(images)
    (folder / "images.gz").write_bytes(gzip.compress(images))
    (folder / "bomb.gz").write_bytes(gzip.compress(bytes(1 << 22)))


def write_weights(folder: Path) -> None:
    """Augmenters of several kinds, and a pickle under their name."""
    from instaaug import InstaAug

    torch.manual_seed(0)
    InstaAug("crop", diversity=(0.1, 0.2)).save(folder / "crop.safetensors")
    InstaAug(["rotation", "hsv_jitter"], diversity=(0.1, 0.2)).save(folder / "ranges.safetensors")
    several = InstaAug("crop", conditioning="class", num_classes=3, diversity=(0.1, 0.2))
    several.save(folder / "classes.safetensors")
    (folder / "pickle.safetensors").write_bytes(pickle.dumps(Fuse(folder)))


def write_checkpoints(folder: Path) -> None:
    """A checkpoint as torch writes it, now and in the past, and one that would run code."""
    state = {
        "epoch": 3,
        "state_dict": {"weight": torch.randn(3, 4), "bias": torch.zeros(3, dtype=torch.bfloat16)},
        "loops": {"done": [1, 2.5, None, True], "name": "fit"},
        "random": torch.get_rng_state(),
    }
    torch.save(state, folder / "last.ckpt")
    torch.save(state, folder / "old.ckpt", _use_new_zipfile_serialization=False)
    torch.save({**state, "fuse": Fuse(folder)}, folder / "code.ckpt")
    made = io.BytesIO()
    pickle.dump(Fuse(folder), made)
    (folder / "pickle.ckpt").write_bytes(made.getvalue())


def write_trained(folder: Path) -> None:
    """A finished run of ``instaaug train``, without its checkpoint and its pictures."""
    from instaaug.runs.settings import TrainSettings
    from instaaug.runs.training import train

    settings = {
        "data.batch_size": 8, "model.width": 0.25, "trainer.max_epochs": 1, "views.n_views": 2,
        "trainer.accelerator": "cpu", "trainer.threads": 1,
    }  # fmt: skip
    train(TrainSettings.from_mapping({**_few_images(folder), **settings}), folder)
    for name in ("last.ckpt", "samples.png"):
        (folder / name).unlink(missing_ok=True)


def write_fitted(folder: Path) -> None:
    """A finished run of ``instaaug tta fit`` on a model of another run."""
    from instaaug.runs.settings import TtaSettings
    from instaaug.runs.tta import fit_frozen

    write_trained(folder / "model")
    settings = {"model": str(folder / "model"), "views": [2], "phi.steps": 3, "threads": 1}
    few = _few_images(folder) | {"data.test_fraction": 0.5}
    fit_frozen(TtaSettings.from_mapping({**few, **settings}), folder)


def write_transferred(folder: Path) -> None:
    """A finished run of ``instaaug transfer``."""
    from instaaug.runs.settings import TransferSettings
    from instaaug.runs.transfer import fit_backbone

    backbone = {"backbone": f"{__name__}:make_backbone", "backbone.image_size": SIDE}
    settings = {**_few_images(folder), **backbone, "views": [2], "threads": 1}
    fit_backbone(TransferSettings.from_mapping(settings), folder)


def make_backbone(_n_outputs: int) -> nn.Module:
    """A network with the same weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def _few_images(folder: Path) -> dict[str, Any]:
    """Settings that name some images, which are written beside the folder."""
    images = np.random.default_rng(0).integers(0, 256, (36, SIDE, SIDE, 3), dtype=np.uint8)
    file = folder.with_name(f"{folder.name}_images.npz")
    np.savez(file, images=images, labels=np.arange(len(images)) % 3)
    return {"data": str(file), "crop.grid": [[1, 1], [0.5, 2]]}


def write_settings(folder: Path) -> None:
    """Settings of every kind of run, as YAML."""
    from instaaug.runs.settings import TrainSettings, TransferSettings, TtaSettings

    kinds = {
        "train": TrainSettings(),
        "tta": TtaSettings.from_mapping({"model": "a:b", "data": "c"}),
        "transfer": TransferSettings.from_mapping({"backbone": "a:b", "data": "c"}),
    }
    for name, settings in kinds.items():
        text = yaml.safe_dump(settings.to_mapping(), sort_keys=False)
        (folder / f"{name}.yaml").write_text(text)


def write_policy(folder: Path) -> None:
    """The best views on average."""
    from instaaug.frozen import StaticPolicy
    from instaaug.transforms import Composition, Crop

    rows = ((0.0, 0.0, 2.0, 2.0), (0.5, 0.5, 1.0, 1.0))
    policy = StaticPolicy(rows, (0.6, 0.4), Composition((Crop(),)))
    policy.save(folder / "policy.json")


def write_trials(folder: Path) -> None:
    """What a search for settings keeps."""
    from instaaug.compare.tuning_trials import TrialRecord, TuningFolder

    rows = [
        TrialRecord(
            i, "complete", {"weight": 0.1}, {"crop": (0.1, 0.2)}, {"entropy.weight": 0.1},
            rungs=((1, 0.5),), scores=(0.5, 1.0), seconds=1.0,
        )
        for i in range(2)
    ]  # fmt: skip
    TuningFolder(folder).write_trials(rows)


def write_texts(folder: Path) -> None:
    """Names of classes and files that try to be more than names."""
    texts = (
        "</script><script>alert(1)</script>", '"><img src=x onerror="alert(1)">', "<!--<script>",
        "]]></style><svg onload=alert(1)>", "$content ${script} {{x}}", "\u2028\u202e\x00\x1b",
    )  # fmt: skip
    (folder / "names.json").write_text(json.dumps(texts))
