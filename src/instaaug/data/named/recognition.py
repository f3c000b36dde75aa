"""Which named set a folder holds, by its layout."""

from pathlib import Path

from instaaug.data.named.cifar10 import cifar10_folder
from instaaug.data.named.idx import idx_folder
from instaaug.data.named.rawfoot import rawfoot_folder
from instaaug.data.named.tiny_imagenet import tiny_imagenet_folder

__all__ = ["looks_like"]

LAYOUTS = {
    "tiny-imagenet": tiny_imagenet_folder,
    "cifar10": cifar10_folder,
    "idx": idx_folder,
    "rawfoot": rawfoot_folder,
}


def looks_like(path: str | Path) -> str | None:
    """The name in `DATASETS` of the set that a folder holds, or None.

    The four files of Fashion-MNIST look like those of MNIST: they are told apart by the word
    "fashion" in the folder's path, and are called ``"idx"`` without it.
    """
    folder = Path(path)
    if not folder.is_dir():
        return None
    name = next((name for name, find in LAYOUTS.items() if find(folder) is not None), None)
    found = idx_folder(folder) if name == "idx" else None
    return "fashion-mnist" if found and "fashion" in str(found.resolve()).lower() else name
