"""Names that try to be more than names."""

from typing import Any

from instaaug.report.page.content import PageContent
from tests.report.page.example_content import example_content, example_run

__all__ = ["HOSTILE", "hostile_content"]

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "';window.hacked=1;//",
    "<!--<script>",
    "]]></style><svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "{{constructor.constructor('window.hacked=1')()}} ${window.hacked=1} $content",
    "a\u202egpj.exe\u2066 b\u2029c\u2028d",
    "z\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309\u030a\u030b\u030c" * 6,
    "nul \x00 bell \x07 escape \x1b[31m delete \x7f",
    "half a pair \ud83d and \udc00",
    "__proto__",
    "toString",
    "🦓 Zebra سلام שלום 斑马 ไทย",
    "very " * 60,
    "W" * 300,
)


def hostile_content() -> PageContent:
    """Every text of the page is hostile."""
    runs = [example_run(), example_run("random", learned=False)]
    content = example_content(len(HOSTILE), runs=runs, classes=HOSTILE, names=HOSTILE)
    return _replaced(content, iter(range(10**6)))


def _replaced(value: Any, counter: Any, key: str = "") -> Any:
    """The same with hostile texts wherever people's words may stand."""
    if isinstance(value, dict):
        renamed = key in ("loss", "score")
        return {
            HOSTILE[next(counter) % len(HOSTILE)] if renamed else name: _replaced(
                inner, counter, name
            )
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_replaced(inner, counter, key) for inner in value]
    free = key not in ("image", "strip", "kind", "task", "level", "classes")
    is_input_name = isinstance(value, str) and value in HOSTILE
    if isinstance(value, str) and free and not is_input_name:
        return HOSTILE[next(counter) % len(HOSTILE)]
    return value
