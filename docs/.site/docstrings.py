"""Turn what our docstrings have of reStructuredText into Markdown and MathML.

Formulas are drawn by the browser itself: no script, no font, nothing to fetch.
"""

import inspect
import re
from typing import Any

import griffe
from latex2mathml.converter import convert

__all__ = ["HouseDocstrings"]

DISPLAY = re.compile(r"^( *)\.\. math::(.*\n(?:(?:\1 +.*)?\n)*)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`")
ROLE = re.compile(r":(?:attr|class|data|func|meth):`(?:([^`<]+?)\s*<)?~?([^`>]+)>?`")
SECTION = re.compile(r"^(Shape|References):\n((?:(?: +.*)?\n)+)", re.MULTILINE)
LINE = re.compile(r"^\| (.*)$", re.MULTILINE)


class HouseDocstrings(griffe.Extension):
    """Rewrites every docstring once it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = rewrite(obj.docstring.value, obj)


def rewrite(text: str, obj: griffe.Object) -> str:
    """Markdown of a docstring."""
    text = re.sub(r"^Example:$", "Examples:", text + "\n", flags=re.MULTILINE)
    text = DISPLAY.sub(lambda found: f"{found[1]}{math(found[2], 'block')}\n\n", text)
    text = INLINE.sub(lambda found: math(found[1], "inline"), text)
    text = SECTION.sub(lambda found: f"**{found[1]}**\n\n{paragraphs(found[2])}\n\n", text)
    return ROLE.sub(lambda found: link(found[1], found[2], obj), text).rstrip()


def math(formula: str, display: str) -> str:
    """MathML in which Markdown finds nothing to do."""
    drawn = convert(" ".join(formula.split()), display=display)
    quiet = drawn.replace("*", "&#42;").replace("_", "&#95;")
    return f"<span>{quiet}</span>"  # alone in a paragraph, it stays part of it


def paragraphs(block: str) -> str:
    """A section's text without its indentation, and line blocks as lines."""
    return LINE.sub(r"\1 <br>", inspect.cleandoc(block))


def link(title: str | None, target: str, obj: griffe.Object) -> str:
    """A link to what a role names, where that has a place in the reference."""
    shown = title or target.removeprefix("instaaug.").rpartition(".")[2]
    place = find(target, obj)
    code = f"<code>{shown}</code>"
    return f'<autoref optional identifier="{place}">{code}</autoref>' if place else code


def find(target: str, obj: griffe.Object) -> str | None:
    """The full path of a name, looked for in the class, its bases, and the module."""
    if target.startswith("instaaug."):
        return target
    owner = obj if obj.is_class else obj.parent
    if owner is not None and owner.is_class and target in owner.all_members:
        return owner.all_members[target].canonical_path
    try:
        return obj.resolve(target)
    except griffe.NameResolutionError:
        return None
