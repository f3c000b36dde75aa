"""What was tried and what came of it: rows of the table, and a ledger that forgets no trial."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Ledger", "Outcome", "Part", "Trials", "summarize"]

Ending = Literal["equal", "refused", "lost"]
"""As it should be; a sentence of ours instead, with nothing lost; anything else."""


@dataclass(frozen=True)
class Trials:
    """A row of the table.

    Arguments:
        what: What was tried.
        n: How often.
        lost: How often it ended otherwise than promised.
        refused: How often it ended with a sentence that says what to do, and nothing was lost.
        note: What else is to be known, such as why nothing was tried.
    """

    what: str
    n: int
    lost: int
    refused: int = 0
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """How one trial ended.

    Arguments:
        ending: The verdict.
        words: What was lost, or the sentence of a refusal.
    """

    ending: Ending
    words: str = ""


Part = Callable[[int, int, Path], list[Trials]]
"""Receives the number of trials of each kind, a seed and a folder to work in; gives the rows."""


class Ledger:
    """Outcomes by the name of the trial, in a file: what is there is not tried again.

    Arguments:
        file: Grows by one line per trial.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.outcomes: dict[str, Outcome] = {}
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                name = entry.pop("name")
                self.outcomes[name] = Outcome(**entry)

    def outcome(self, name: str, attempt: Callable[[], Outcome]) -> Outcome:
        """The outcome of a trial, from the file or from trying."""
        if name not in self.outcomes:
            found = self.outcomes[name] = attempt()
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, **asdict(found)}) + "\n")
        return self.outcomes[name]

    def note(self, name: str, find: Callable[[], str]) -> str:
        """What is found once and then kept, such as the places to try."""
        return self.outcome(name, lambda: Outcome("equal", find())).words


def summarize(what: str, outcomes: Iterable[Outcome], note: str = "") -> Trials:
    """The row of trials of one kind.

    Example:
        >>> summarize("kills", [Outcome("equal"), Outcome("refused", "No.")])
        Trials(what='kills', n=2, lost=0, refused=1, note='')
    """
    counts = Counter(outcome.ending for outcome in outcomes)
    return Trials(what, counts.total(), counts["lost"], counts["refused"], note)
