"""Is anything lost? Kills, cut files, several processes and full disks, counted."""

__all__ = ["main"]


def main() -> None:
    """Try all parts and write ``results/reliability.json``."""
    from benchmarks.reliability.__main__ import main as try_parts  # it is a program as well

    try_parts([])
