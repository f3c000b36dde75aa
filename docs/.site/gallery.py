"""Make the report pages of the site's gallery, from generated pictures, in a minute or so.

``python docs/.site/gallery.py build/gallery`` trains three small classifiers and fits views for
one of them, and writes a page for each entry of :data:`PAGES`. They are examples of pages, not of
what the method can do: everything is as small as it can be.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "GalleryPage", "make_pages"]

N_SCENES, SIDE, N_SHOWN = 600, 96, 24


@dataclass(frozen=True)
class GalleryPage:
    """A page of the gallery.

    Arguments:
        name: Of its file and its thumbnail.
        title: Its heading in the gallery.
        words: What there is to see.
        runs: The folders that it reports on.
    """

    name: str
    title: str
    words: str
    runs: tuple[str, ...]


PAGES = (
    GalleryPage(
        "turned",
        "How far may each picture be turned?",
        "A run on the built-in sprites. Open a picture: its dial shows the angles that leave it "
        "what it is, learned from class labels alone.",
        ("turned",),
    ),
    GalleryPage(
        "crops",
        "Where may each picture be cut?",
        "Learned crops of sprites in front of noise. Open a picture: likely boxes, where their "
        "centers lie, and how the prediction settles as views are added.",
        ("crops",),
    ),
    GalleryPage(
        "three-runs",
        "Three runs side by side",
        "Learned crops, random crops and none, on the same test pictures, with a paired test and "
        "the settings that differ.",
        ("crops", "random", "none"),
    ),
    GalleryPage(
        "frozen",
        "Views for a frozen model",
        "The model without augmentation again, not a byte of it changed: which views of a picture "
        "it should look at, cross-validated.",
        ("frozen",),
    ),
)


def make_pages(folder: Path) -> None:
    """Write every page to ``folder``, named after its entry."""
    from instaaug.runs.reporting import write_report
    from instaaug.runs.settings import TrainSettings, TtaSettings
    from instaaug.runs.training import train
    from instaaug.runs.tta import fit_frozen

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        scenes = str(_write_scenes(place / "scenes"))
        common = {"data.cache_dir": str(place / "cache"), "trainer.accelerator": "cpu"}
        crops = {**common, "data": scenes, "data.image_size": 32, "trainer.max_epochs": 6}
        crops["model"] = "small_cnn"
        kinds = {
            "turned": {**common, "data": "sprites", "trainer.max_epochs": 2},
            "crops": crops,
            "random": {**crops, "method": "random"},
            "none": {**crops, "method": "none"},
        }
        for name, settings in kinds.items():
            train(TrainSettings.from_mapping(settings), place / name)
        fit = {
            "model": str(place / "none"), "data": scenes, "phi.steps": 100,
            "data.cache_dir": common["data.cache_dir"], "views.counts": [4, 10],
        }  # fmt: skip
        fit_frozen(TtaSettings.from_mapping(fit), place / "frozen")
        for page in PAGES:
            runs = [place / name for name in page.runs]
            written = write_report(runs, place / "report", n_inputs=N_SHOWN)
            written.page.replace(folder / f"{page.name}.html")


def _write_scenes(folder: Path) -> Path:
    """Sprites somewhere in front of noise, one folder per class."""
    import torch
    from PIL import Image

    from instaaug.data import RotatedSprites

    generator = torch.Generator().manual_seed(0)
    sprites = RotatedSprites(N_SCENES, generator=generator)
    for i in range(N_SCENES):
        sprite, label = sprites[i]
        coarse = torch.rand(1, 3, 12, 12, generator=generator)
        scene = torch.nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bilinear")[0]
        scene = 0.25 + 0.35 * scene
        room = SIDE - sprite.shape[-1]
        x, y = (int(torch.randint(room, (), generator=generator)) for _ in range(2))
        behind = scene[:, y : y + sprite.shape[-1], x : x + sprite.shape[-1]]
        behind.copy_(torch.where(sprite.sum(dim=0) > 0, sprite, behind))
        file = folder / sprites.classes[int(label)] / f"{i:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((scene * 255).byte().permute(1, 2, 0).numpy()).save(file)
    return folder


if __name__ == "__main__":
    make_pages(Path(sys.argv[1]))
