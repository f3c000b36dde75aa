"""``python -m instaaug`` is the ``instaaug`` command."""

from instaaug.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
