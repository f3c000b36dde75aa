"""A policy for Fast AutoAugment, found on the training images before a run begins."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException

from instaaug.augmentation.augmenter import HeldOutBatch
from instaaug.data import DataSplits, LabeledImages
from instaaug.data.splits import split
from instaaug.errors import ArgumentError, DataError
from instaaug.files import write_text
from instaaug.methods.fast_auto_augment import (
    FastAutoAugment,
    OnTrial,
    SubPolicy,
    import_optuna,
    read_policy,
    search_policy,
)
from instaaug.runs.build import build_task
from instaaug.runs.folder import DataFacts
from instaaug.runs.lightning import forward_interrupts, quiet_lightning
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import AugmentedTask, BatchLoader, Interrupted

__all__ = ["FILE", "HELD_OUT", "check_search", "find_policy", "prepare_policy"]

FILE = "policy_search.json"
"""Where a folder keeps what was found so far."""

HELD_OUT = 0.4
"""Share of the training images that each split holds out, as in the source."""

N_SUBPOLICIES = 5
N_BEST = 10


def prepare_policy(
    run_path: Path,
    config: TrainSettings,
    splits: DataSplits,
    facts: DataFacts,
    augmenter: FastAutoAugment,
    *,
    on_trial: OnTrial | None = None,
) -> None:
    """Give an augmenter the policy of its run, which is searched for unless the folder has it.

    Arguments:
        run_path: The folder of the run.
        config: Every setting of the run.
        splits: Its images.
        facts: What is known of them.
        augmenter: Says how much to search; receives the policy.
        on_trial: Told of the progress.
    """
    policy = find_policy(config, splits, facts, augmenter, folder=run_path, on_trial=on_trial)
    augmenter.set_policy(policy)


def find_policy(
    config: TrainSettings,
    splits: DataSplits,
    facts: DataFacts,
    augmenter: FastAutoAugment,
    *,
    folder: Path | None = None,
    on_trial: OnTrial | None = None,
) -> tuple[SubPolicy, ...]:
    """The sub-policies that suit these images and models of this kind.

    Each of ``augmenter.n_folds`` splits of the training images, stratified, holds out 40 % of
    them. A model is trained without augmentation on the rest, and what it finds with
    ``augmenter.n_trials`` trials on the held-out images joins the policy. Validation and test
    images are never used. The seed of the settings decides everything.

    Arguments:
        config: The run that the policy is for; a fold's model is trained as it says.
        splits: Its images.
        facts: What is known of them.
        augmenter: Says how much to search and how operations are applied; is left as it was.
        folder: Where to keep the policies of finished folds, to go on from there.
        on_trial: Called with the number of policies tried and of all.

    Raises:
        ArgumentError: If the policy might have no room.
        DataError: If the folder holds what another search has found.
        MissingOptunaError: If Optuna is not installed.
        Interrupted: If the system asks the program to stop while a model is trained.
    """
    check_search(augmenter)
    made_with = _facts_of_search(config, facts, augmenter)
    found = [] if folder is None else _read(folder / FILE, made_with)
    total = augmenter.n_folds * augmenter.n_trials
    for fold in range(len(found), augmenter.n_folds):
        before = fold * augmenter.n_trials

        def tell(done: int, _: int, before: int = before) -> None:
            if on_trial is not None:
                on_trial(before + done, total)

        found.append(_search_fold(config, splits.train, facts, augmenter, fold, tell))
        if folder is not None:
            content = {"made_with": made_with, "folds": found}
            write_text(folder / FILE, json.dumps(content) + "\n")
    return tuple(one for policy in found for one in policy)


def _search_fold(
    config: TrainSettings,
    images: LabeledImages,
    facts: DataFacts,
    augmenter: FastAutoAugment,
    fold: int,
    on_trial: OnTrial,
) -> tuple[SubPolicy, ...]:
    words = np.random.SeedSequence([config.seed, fold]).generate_state(1)
    seed = int(words[0]) >> 1
    parts = split(images, test_fraction=HELD_OUT, seed=seed, by=config.data.split)
    task, device = _plain_task(config, parts.train, facts, augmenter.fold_epochs, seed)
    return search_policy(
        task.model,
        _make_held_out_batch(parts.test, task, augmenter.n_images, seed, device),
        augmenter,
        n_trials=augmenter.n_trials,
        n_subpolicies=N_SUBPOLICIES,
        n_best=N_BEST,
        seed=seed,
        on_trial=on_trial,
    )


def _plain_task(
    config: TrainSettings, images: LabeledImages, facts: DataFacts, epochs: int, seed: int
) -> tuple[AugmentedTask, torch.device]:
    """A model that was trained without augmentation, and where it is; leaves no file."""
    plain = config.override(
        {
            "method": "none",
            "phi.step": "joint",
            "phi.rest_epochs": 0,
            "n_samples": 1,
            "pretrain_epochs": 0,
            "trainer.max_epochs": epochs or config.trainer.max_epochs,
            "seed": seed,
        }
    )
    task = build_task(plain, facts)
    with quiet_lightning(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trainer = Trainer(
            accelerator=plain.trainer.accelerator,
            devices=1,
            precision=plain.trainer.precision,  # type: ignore[arg-type]
            max_epochs=plain.trainer.max_epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        try:
            with forward_interrupts():
                trainer.fit(task, BatchLoader(images, plain.data.batch_size, seed=seed))
        except SIGTERMException:  # else the program would end as if all were well
            raise Interrupted(
                "Stopped by SIGTERM in the search for a policy; what finished folds found is kept."
            ) from None
    device = trainer.strategy.root_device
    return task.to(device), device


def _make_held_out_batch(
    images: LabeledImages, task: AugmentedTask, n_images: int, seed: int, device: torch.device
) -> HeldOutBatch:
    """At most ``n_images`` of them, or all for 0, from every class its share."""
    if 0 < n_images < len(images):
        images = split(images, test_fraction=n_images / len(images), seed=seed).test
    x, targets = images.__getitems__(range(len(images)))
    return HeldOutBatch(task.normalize(x.to(device)), targets.to(device))


def check_search(augmenter: FastAutoAugment) -> None:
    """Raise if the search cannot succeed, before any model is trained."""
    import_optuna()
    most = augmenter.n_folds * N_BEST * N_SUBPOLICIES
    if most > augmenter.n_policies:
        raise ArgumentError(
            f"`n_policies` must be at least {most} for {augmenter.n_folds} folds, each of which "
            f"yields up to {N_BEST * N_SUBPOLICIES} sub-policies: got {augmenter.n_policies}."
        )


def _facts_of_search(
    config: TrainSettings, facts: DataFacts, augmenter: FastAutoAugment
) -> dict[str, Any]:
    """What must not change between the parts of a resumed search."""
    names = ("n_folds", "n_trials", "n_images", "fold_epochs", "n_operations")
    searched = {name: getattr(augmenter, name) for name in names}
    return {**searched, "seed": config.seed, "split_hash": facts.split_hash}


def _read(path: Path, made_with: Mapping[str, Any]) -> list[tuple[SubPolicy, ...]]:
    """The policies of the folds that are done."""
    if not path.is_file():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        before, found = content["made_with"], [read_policy(one) for one in content["folds"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{str(path)!r} cannot be read as a search for a policy: {error}. Delete it to search "
            "anew."
        ) from error
    if before != made_with:
        raise DataError(
            f"{str(path)!r} is from a search with other settings: {before} then, {dict(made_with)}"
            " now. Delete it to search anew."
        )
    return found
