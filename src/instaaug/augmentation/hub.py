"""Augmenters in folders and on Hugging Face's Hub: one weights file, and a page on it.

Not by ``ModelHubMixin``: as a base of InstaAug it would make huggingface_hub a package that all
need, and it records the arguments of constructors, which the weights file has already.
"""

from pathlib import Path
from types import ModuleType

from torch import nn

from instaaug.errors import InstaAugError, WeightsFileError
from instaaug.files import write_text

__all__ = ["WEIGHTS", "MissingHubError", "find_weights", "upload", "write_card"]

WEIGHTS = "aug.safetensors"
CARD = """---
library_name: instaaug
tags: [instaaug, data-augmentation, test-time-augmentation]
---

# A learned augmentation

```python
from instaaug import InstaAug

aug = InstaAug.from_pretrained("this repository or folder").eval()
predictor = aug.wrap(model, n_samples=10)
```

```
{augmenter}
```
"""


class MissingHubError(InstaAugError, ImportError):
    """The Hub needs a package that is not installed."""


def write_card(folder: Path, augmenter: nn.Module) -> None:
    """Write a page on the augmenter, unless the folder has one."""
    if not (folder / "README.md").exists():
        write_text(folder / "README.md", CARD.format(augmenter=augmenter))


def find_weights(name: str | Path, *, revision: str | None = None) -> Path:
    """The weights file of a folder; or of a repository on the Hub, of which it alone is fetched.

    Arguments:
        name: A folder, or the id of a repository, such as ``"user/flowers-aug"``.
        revision: Branch, tag or commit of the repository.
    """
    if Path(name).is_dir():
        return Path(name) / WEIGHTS
    try:
        return Path(_hub().hf_hub_download(str(name), WEIGHTS, revision=revision))
    except (OSError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        raise WeightsFileError(
            f"`name` must be a folder, or a repository on the Hub that has {WEIGHTS} and can be "
            f"reached: got {str(name)!r} ({words})."
        ) from error


def upload(folder: Path, repo_id: str, *, private: bool | None, commit_message: str) -> str:
    """Put the files of a folder into a repository, which is made if need be; gives its address."""
    api = _hub().HfApi()
    repository = api.create_repo(repo_id, private=private, exist_ok=True)
    api.upload_folder(
        repo_id=repository.repo_id, folder_path=folder, commit_message=commit_message
    )
    return str(repository)


def _hub() -> ModuleType:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingHubError(
            "The Hub needs huggingface_hub, which is not installed. Run: pip install "
            "'instaaug[hub]', or give a folder, which needs nothing."
        ) from error
    return huggingface_hub
