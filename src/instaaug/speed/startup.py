"""How fast does the command start? The one budget in seconds: half of one, and no torch."""

import subprocess
import sys
import time

from instaaug.speed.timing import ROUNDS, Tables, compare

__all__ = ["main"]

ALLOWED = "half a second"
CALL = "import sys; sys.argv = ['instaaug', '--help']; from instaaug.cli import main; main()"
NO_TORCH = "import sys; import instaaug.cli; sys.exit('torch' in sys.modules)"


def run(program: str) -> None:
    """Run a program in a new interpreter; one that fails is an error."""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def main(rounds: int = ROUNDS) -> Tables:
    """The command's help, beside the least and the most that it could take."""
    run(NO_TORCH)
    contenders = {
        ALLOWED: lambda: time.sleep(0.5),
        "python -c pass": lambda: run("pass"),
        "import torch": lambda: run("import torch"),
        "instaaug --help": lambda: run(CALL),
    }
    rows = compare(contenders, reference=ALLOWED, budgets={"instaaug --help": 1.0}, rounds=rounds)
    return {"start of a process": rows}
