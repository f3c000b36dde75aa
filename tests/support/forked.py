"""Functions in processes of their own, which need not import torch again."""

import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["exit_codes"]

LONGEST = 300.0  # seconds; a busy machine takes its time, a deadlock shall fail


def exit_codes(function: Callable[..., None], *calls: Sequence[Any]) -> list[int | None]:
    """Call a function once per sequence of arguments, in as many processes at the same time.

    Processes are forks of this one with a single thread, as those of a data loader are.

    Returns:
        The exit codes; negative is the number of the signal that killed it, None too long a wait.
    """
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_single, args=(function, *call)) for call in calls]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on: there are threads
        for process in processes:
            process.start()
    for process in processes:
        process.join(LONGEST)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
        process.join()
    return codes


def _single(function: Callable[..., None], *arguments: Any) -> None:
    torch.set_num_threads(1)  # the threads of OpenMP do not survive a fork
    function(*arguments)
