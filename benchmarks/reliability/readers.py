"""Is anything let in? Files of others, damaged in thousands of ways, given to every reader."""

import json
import os
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from benchmarks.reliability import corpus
from benchmarks.reliability.mutations import damage
from benchmarks.reliability.trials import Outcome, Trials, summarize
from instaaug.errors import InstaAugError

__all__ = ["READERS", "Input", "Reader", "fuzz", "try_readers"]

INPUTS_PER_TRIAL = 200
MOST_SECONDS = 20.0  # of a processor, for one input
MOST_BYTES = 2 << 30  # of address space beyond what the program has before it reads anything
FORBIDDEN = frozenset(  # events of Python that a reader has no reason to cause
    {
        *("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "subprocess.Popen"),
        *("socket.connect", "socket.getaddrinfo", "socket.bind", "pty.spawn", "urllib.Request"),
        *("webbrowser.open", "pickle.find_class"),
    }
)


@dataclass(frozen=True)
class Reader:
    """What reads files of others.

    Arguments:
        name: What is read.
        write: Fills a folder with whole files.
        read: Reads a file of the folder.
        files: Pattern of the files that are damaged.
        share: Of all inputs, what it gets: less than one where reading takes long.
    """

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    files: str = "*"
    share: float = 1.0


class Input(NamedTuple):
    """How one input ended, and how many seconds of a processor it took."""

    outcome: Outcome
    seconds: float


def fuzz(reader: Reader, n: int, seed: int, folder: Path) -> list[Input]:
    """Damage whole files ``n`` times and read them, one after the other, in this process.

    Arguments:
        reader: What reads.
        n: How many inputs.
        seed: Decides the damage.
        folder: Holds what the reader writes; an input that ends the process stays there.
    """
    found = sorted(path for path in folder.glob(reader.files) if path.is_file())
    whole = {path: path.read_bytes() for path in found}
    for path in whole:
        _attempt(reader, path)  # imports all that it needs
    random = Random(f"{seed} {reader.name}")  # noqa: S311  # no secret
    inputs = []
    for _ in range(n):
        path = random.choice(found)
        others = [data for other, data in whole.items() if other.suffix == path.suffix]
        path.write_bytes(damage(whole[path], path.suffix[1:], others, random))
        started = time.process_time()
        outcome = _attempt(reader, path)
        seconds = time.process_time() - started
        if seconds > MOST_SECONDS:
            outcome = Outcome("lost", f"{seconds:.0f} seconds")
        inputs.append(Input(outcome, seconds))
        path.write_bytes(whole[path])
    return inputs


def _attempt(reader: Reader, path: Path) -> Outcome:
    """Read a file: as it should be, refused in our words, or lost."""
    fuse = path.parent / corpus.FUSE
    try:
        reader.read(path)
    except (InstaAugError, FileNotFoundError) as error:
        outcome = Outcome("refused", str(error))
    except Exception as error:  # anything else is what we look for
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "instaaug" in frame.filename] or frames
        place = f"{Path(ours[-1].filename).name}, line {ours[-1].lineno}"
        outcome = Outcome("lost", f"{type(error).__name__} in {place}: {str(error)[:100]}")
    else:
        outcome = Outcome("equal")
    if fuse.exists():
        fuse.unlink()
        return Outcome("lost", "code ran")
    return outcome


def try_readers(trials: int, seed: int, folder: Path) -> list[Trials]:
    """A row per reader, each in a process of its own with little memory."""
    del folder  # each has a temporary one
    return [_try(name, trials * INPUTS_PER_TRIAL, seed) for name in READERS]


def _try(name: str, n: int, seed: int) -> Trials:
    n = max(1, round(n * READERS[name].share))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            row, lost = pool.submit(_try_alone, name, n, seed).result()
        except BrokenProcessPool:
            row, lost = Trials(name, n, n, note="the process died"), Counter()
    for words, count in lost.items():
        print(f"{name}: {count} × {words}")
    return row


def _try_alone(name: str, n: int, seed: int) -> tuple[Trials, Counter[str]]:
    """The row of a reader, from this process, which is good for nothing else afterwards."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    events: Counter[str] = Counter()
    with TemporaryDirectory() as place:
        os.chdir(place)
        os.environ["INSTAAUG_CACHE"] = str(Path(place) / "cache")
        reader, folder = READERS[name], Path(place) / "files"
        folder.mkdir()
        reader.write(folder)
        _silence_decoders()
        fuzz(reader, 1, seed, folder)  # what is imported takes memory
        sys.addaudithook(lambda event, _: events.update([event] if event in FORBIDDEN else []))
        before = _limit_memory()
        inputs = fuzz(reader, n, seed, folder)
        taken = (_peak_bytes() - before) / 2**20
        os.chdir("/")
    slowest = max(one.seconds for one in inputs)
    note = f"at most {slowest:.2f} s of a processor and {max(taken, 0):.0f} MB more memory"
    lost = Counter(one.outcome.words for one in inputs if one.outcome.ending == "lost")
    row = summarize(name, [one.outcome for one in inputs], note)
    if events:
        lost.update(events)
        row = Trials(name, n, row.lost + events.total(), row.refused, f"{dict(events)}; {note}")
    return row, lost


def _limit_memory() -> int:
    """Let this process have little more memory; returns the most that it had until now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return _peak_bytes()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _silence_decoders() -> None:
    """Send what libraries in C print on every damaged picture to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _read_picture(path: Path) -> None:
    from instaaug.data.decode import decode_image, read_header

    read_header(path)
    decode_image(path, size=8, channels=3)


def _read_weights(path: Path) -> None:
    from instaaug import InstaAug

    InstaAug.load(path)


def _read_arrays(path: Path) -> None:
    from instaaug.data.arrays import read_arrays

    read_arrays(path)


def _read_table(path: Path) -> None:
    from instaaug.data.files import read_table

    read_table(path, size=8, on_bad_image="skip")


def _read_idx(path: Path) -> None:
    from instaaug.data.mnist import read_idx

    read_idx(path, 3)


def _read_checkpoint(path: Path) -> None:
    from instaaug.tasks.callbacks import WholeCheckpointIO

    WholeCheckpointIO().load_checkpoint(path)


def _read_settings(path: Path) -> None:
    from instaaug.runs.settings import read_run_settings
    from instaaug.yaml_files import read_yaml

    read_run_settings(read_yaml(path), source=str(path))


def _read_policy(path: Path) -> None:
    from instaaug.frozen import StaticPolicy

    StaticPolicy.load(path).as_augmenter()


def _read_trials(path: Path) -> None:
    from instaaug.compare.tuning_trials import TuningFolder

    TuningFolder(path.parent).read_trials()


def _use_run(path: Path) -> None:
    from instaaug.runs.loaded import load_run

    run = load_run(path.parent)
    pixels = torch.zeros(1, run.channels, min(run.size, 64), min(run.size, 64), dtype=torch.uint8)
    run.make_predictor(None, None)(pixels)


def _read_record(path: Path) -> None:
    from instaaug.report.records import accuracy_of, describe_learned, read_record
    from instaaug.report.run_figures import leaderboard_rows

    record = read_record(path.parent)
    accuracy_of(record)
    describe_learned([record])
    leaderboard_rows([record])


def _report(path: Path) -> None:
    from instaaug.runs.reporting import write_report

    write_report([path.parent], n_inputs=2, n_views=1)


def _command(path: Path) -> None:
    """Let the command line show a run; anything but a sentence and its code is an error."""
    from instaaug.cli import main

    sys.argv = ["instaaug", "show", str(path.parent)]
    said = StringIO()
    try:
        with redirect_stdout(StringIO()), redirect_stderr(said):
            main()
    except SystemExit as stop:
        if stop.code not in (0, None, 2):
            raise RuntimeError(f"exit code {stop.code}") from None
        if stop.code == 2:
            raise InstaAugError(said.getvalue()) from None


def _show_names(path: Path) -> None:
    """Put names onto the page; the page around them must stay as it is."""
    from instaaug.report.page.build import page_html
    from instaaug.report.page.content import PageContent

    names = path.read_bytes().decode("utf-8", "replace").split(",")
    before, inside, after = _around(page_html(_page(names)))
    if (before, after) != _quiet_page() or set(inside) & set("<>&\u2028\u2029"):
        raise RuntimeError("a name became a part of the page")
    content: PageContent = json.loads(inside)
    if content["classes"] != names:
        raise RuntimeError("a name is another one on the page")


@cache
def _quiet_page() -> tuple[str, str]:
    """A page around names that are only names."""
    from instaaug.report.page.build import page_html

    before, _, after = _around(page_html(_page(["x"])))
    return before, after


def _page(names: list[str]) -> Any:
    return {
        "title": names[0], "made": "", "task": "classification", "classes": names, "inputs": [],
        "aspect": 1.0, "n_test": 0, "runs": [],
    }  # fmt: skip


def _around(page: str) -> tuple[str, str, str]:
    """A page until its content, the content, and the rest."""
    start = page.index('id="content">') + len('id="content">')
    end = page.index("</script>", start)
    return page[:start], page[start:end], page[end:]


RUN_FILES = "*.[cyjs]*[vlns]"  # .csv, .yaml, .json, .safetensors
READERS = {
    reader.name: reader
    for reader in (
        Reader("pictures", corpus.write_pictures, _read_picture),
        Reader("archives of arrays (.npz)", corpus.write_arrays, _read_arrays),
        Reader("arrays (.npy)", corpus.write_columns, _read_arrays),
        Reader("tables of files (.csv)", corpus.write_table, _read_table, "*.csv"),
        Reader("idx files", corpus.write_idx, _read_idx),
        Reader("weights of augmenters", corpus.write_weights, _read_weights),
        Reader("checkpoints", corpus.write_checkpoints, _read_checkpoint),
        Reader("settings (.yaml)", corpus.write_settings, _read_settings),
        Reader("policies", corpus.write_policy, _read_policy),
        Reader("trials of a search", corpus.write_trials, _read_trials),
        Reader("runs of train, used", corpus.write_trained, _use_run, RUN_FILES),
        Reader("runs of tta fit, used", corpus.write_fitted, _use_run, RUN_FILES),
        Reader("runs of transfer, used", corpus.write_transferred, _use_run, RUN_FILES),
        Reader("records of runs", corpus.write_trained, _read_record, "*.[cyj]*[vln]"),
        Reader("runs, shown by the command line", corpus.write_trained, _command, "*.yaml"),
        Reader("runs, reported", corpus.write_trained, _report, RUN_FILES, 0.002),
        Reader("names on the page", corpus.write_texts, _show_names),
    )
}
