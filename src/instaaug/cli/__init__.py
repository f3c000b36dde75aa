"""The command line: parse, call, print. Nothing heavy is imported before a command runs."""

from instaaug.cli.app import main

__all__ = ["main"]
