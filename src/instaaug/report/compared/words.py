"""Words that others have written, made fit for one cell of a table."""

from unicodedata import category

__all__ = ["listed", "one_line", "shortened"]


def one_line(words: str) -> str:
    r"""Words on one line, without letters that cannot be seen or that turn the line around.

    Example:
        >>> one_line("  random\n crop\x1b\u202e ")
        'random crop'
    """
    seen = "".join(" " if letter.isspace() else letter for letter in words)
    return " ".join("".join(x for x in seen if not category(x).startswith("C")).split())


def shortened(words: str, most: int) -> str:
    """The first words, and an ellipsis if there are more letters than wanted.

    Example:
        >>> shortened("the loss became NaN", 14)
        'the loss…'
    """
    if len(words) <= most:
        return words
    kept = words[: most - 1]
    return (kept.rsplit(" ", 1)[0] if " " in kept else kept).rstrip(" ,;:.") + "…"


def listed(items: list[str]) -> str:
    """Items as one says them.

    Example:
        >>> listed(["0"]), listed(["0", "1", "4"])
        ('0', '0, 1 and 4')
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
