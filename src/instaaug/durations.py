"""How long something takes, in words."""

__all__ = ["format_duration"]


def format_duration(seconds: float) -> str:
    """A duration in the unit that suits it.

    Example:
        >>> format_duration(42.0), format_duration(600.0), format_duration(9000.0)
        ('42 s', '10 min', '2.5 h')
        >>> format_duration(2e5)
        '2.3 days'
    """
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.0f} s"
