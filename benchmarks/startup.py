"""How fast does the command start? The reference is an interpreter that imports nothing."""

import subprocess
import sys

from benchmarks.record import Row, compare, save

__all__ = ["main"]

CALL = "import sys; sys.argv = ['instaaug', '--help']; from instaaug.cli import main; main()"
HELP = [sys.executable, "-c", CALL]
NO_TORCH = "import sys; import instaaug.cli; sys.exit('torch' in sys.modules)"


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def main() -> dict[str, list[Row]]:
    run([sys.executable, "-c", NO_TORCH])
    contenders = {
        "python -c pass": lambda: run([sys.executable, "-c", "pass"]),
        "import torch": lambda: run([sys.executable, "-c", "import torch"]),
        "instaaug --help": lambda: run(HELP),
    }
    tables = {"start of a process": compare(contenders, reference="python -c pass")}
    save("startup", tables, help_imports_torch=False)
    return tables
