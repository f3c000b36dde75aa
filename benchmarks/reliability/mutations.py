"""Damage to the bytes of files: blind, or by someone who knows the format and lies in it."""

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml

__all__ = ["damage"]

NUMBERS = (
    *(0, -1, 1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 10**9, 10**12, 10**400),
    *(0.5, -0.0, 1e-320, 1e38, 1e308, float("nan"), float("inf"), -float("inf")),
)
TEXTS = (
    *("", "x", "crop", "null", "</script><script>alert(1)</script>", "../../../etc/passwd"),
    *("\0", "\ud800", "\u202e", "é" * 100, "A" * 10_000, "1e5", "-1", "nan", "[[1, 1]]", "%s%n"),
)
VALUES: tuple[Any, ...] = (
    *NUMBERS,
    *TEXTS,
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    [0] * 1000,
)
SNIPPETS = (
    *("NaN", "Infinity", "1e999", "-1", "9" * 5000, "[" * 2000, '{"a":' * 2000, "[" * 100_000),
    *("&a [*a, *a]", "*a", "<<: *a", "!!python/object/apply:os.system ['true']", "!!binary x"),
    *("? [a]: b", "\t", "\r", '"', "'", "\0", "\x1b[2J", "---\n", "...\n", "0x", "2020-01-01"),
    *("a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]", "1:2:3"),
)  # fmt: skip
WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def damage(data: bytes, ending: str, others: Sequence[bytes], random: Random) -> bytes:
    """A file's bytes, damaged once to thrice: half of the time as its format allows.

    Arguments:
        data: The bytes of a whole file.
        ending: How its name ends, which tells the format.
        others: Whole files of the same kind, to splice with.
        random: Decides what is done.
    """
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        known = FORMATS.get(ending)
        change = known if known is not None and random.random() < 0.6 else None
        data = change(data, random) if change else _any_bytes(data, others, random)
    return data


def _any_bytes(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Bytes damaged without knowing what they mean."""
    at, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    kind = random.randrange(8)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[end:]
    if kind == 2:
        return data[:end] + data[at:end] * random.choice((1, 2, 50)) + data[end:]
    if kind == 3:
        other = random.choice(others)
        return data[:at] + other[random.randrange(len(other) + 1) :]
    if kind == 4:
        return data[:at] + random.randbytes(random.choice((1, 4, 64))) + data[at:]
    return _lying_number(data, random) if kind == 5 else _flipped(data, random)


def _flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8)) if data else 0):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _lying_number(data: bytes, random: Random) -> bytes:
    """A length or size somewhere in the file that is not true."""
    width = random.choice(tuple(WIDTHS))
    at = random.randrange(max(1, min(len(data), 4096) - width))
    largest = 256**width - 1
    value = random.choice(
        (0, 1, largest, largest // 2, largest // 2 + 1, random.randint(0, largest))
    )
    number = struct.pack(random.choice("<>") + WIDTHS[width], value)
    return data[:at] + number + data[at + width :]


def _text(data: bytes, random: Random) -> bytes:
    """Words and numbers that make sense to a parser, in places where they do not belong."""
    text = data.decode("utf-8", "surrogateescape")
    kind = random.randrange(4)
    words = list(re.finditer(r"[\w.+-]+", text))
    if kind == 0 or not words:
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice(SNIPPETS) + text[at:]
    elif kind == 1:
        lines = text.splitlines(keepends=True)
        lines.insert(random.randrange(len(lines)), random.choice(lines))
        text = "".join(lines)
    else:
        word = random.choice(words)
        new = random.choice((*SNIPPETS, *map(str, VALUES), random.choice(words).group()))
        text = text[: word.start()] + new + text[word.end() :]
    return text.encode("utf-8", "surrogatepass" if "\ud800" in text else "surrogateescape")


def _json(data: bytes, random: Random) -> bytes:
    """One value of the tree replaced, removed, or given under another name."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _text(data, random)
    return json.dumps(_changed(tree, random), ensure_ascii=random.random() < 0.9).encode(
        "utf-8", "surrogatepass"
    )


def _yaml(data: bytes, random: Random) -> bytes:
    try:
        tree = yaml.safe_load(data)
        return yaml.safe_dump(_changed(tree, random), allow_unicode=True).encode(
            "utf-8", "surrogatepass"
        )
    except (ValueError, RecursionError, yaml.YAMLError):
        return _text(data, random)


def _changed(tree: Any, random: Random) -> Any:
    if not isinstance(tree, dict | list) or not tree or random.random() < 0.1:
        return random.choice(VALUES)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key = random.choice(keys)
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    kind = random.randrange(8)
    if kind == 0:
        del copy[key]
    elif kind == 1 and isinstance(copy, dict):
        copy[random.choice(TEXTS)] = copy.pop(key)
    elif kind == 2:
        copy[key] = tree[random.choice(keys)]
    else:
        copy[key] = _changed(tree[key], random)
    return copy


def _json_or_text(data: bytes, random: Random) -> bytes:
    return random.choice((_json, _json, _text))(data, random)


def _yaml_or_text(data: bytes, random: Random) -> bytes:
    return random.choice((_yaml, _yaml, _text))(data, random)


def _safetensors(data: bytes, random: Random) -> bytes:
    """Another header, of which the length is true but for one time in five."""
    length = int.from_bytes(data[:8], "little")
    header, tensors = data[8 : 8 + length], data[8 + length :]
    try:
        tree = json.loads(header)
        header = json.dumps(_lie(tree, random)).encode()
    except (ValueError, RecursionError):
        header = _text(header, random)
    if random.random() < 0.8:
        length = len(header)
    return struct.pack("<Q", length) + header + tensors


def _lie(tree: Any, random: Random) -> Any:
    """A header of safetensors, or the settings as JSON within it, changed."""
    metadata: Any = tree.get("__metadata__") if isinstance(tree, dict) else None
    settings = metadata.get("settings") if isinstance(metadata, dict) else None
    if not isinstance(settings, str) or random.random() < 0.4:
        return _changed(tree, random)
    text = _json_or_text(settings.encode(), random).decode("utf-8", "replace")
    return {**tree, "__metadata__": {**metadata, "settings": text}}


def _npy(data: bytes, random: Random) -> bytes:
    """Another shape or type in the header, of which the length is true."""
    length = int.from_bytes(data[8:10], "little")
    header = _text(data[10 : 10 + length].rstrip(), random)
    kinds = (rb"|O", rb"<f8", rb"<U100000", rb"|V8", rb"<M8[ns]", rb"|S0", rb"<c16", rb">i2")
    if random.random() < 0.3:
        header = re.sub(rb"'descr': '[^']*'", b"'descr': '" + random.choice(kinds) + b"'", header)
    header = header[:60_000] + b" " * 8 + b"\n"
    return data[:8] + struct.pack("<H", len(header)) + header + data[10 + length :]


def _zip(data: bytes, random: Random) -> bytes:
    """An archive with one of its files changed, and its sums right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # it was damaged before
        return _flipped(data, random)
    if not files:
        return data
    chosen = random.choice(list(files))
    inner = FORMATS.get(chosen.rpartition(".")[2], _flipped)
    content = inner(files[chosen], random) if random.random() < 0.7 else b""
    files[chosen] = content or _any_bytes(files[chosen], list(files.values()), random)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", random.choice((0, 0, 8))) as archive:
        for name, inside in files.items():
            archive.writestr(name, inside)
    return made.getvalue()


def _png(data: bytes, random: Random) -> bytes:
    """A picture with one chunk changed, and the sums of all of them right."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    if not chunks:
        return _flipped(data, random)
    chosen = random.randrange(len(chunks))
    kind, content = chunks[chosen]
    chunks[chosen] = (kind, random.choice((_flipped, _lying_number))(content, random))
    made = data[:8]
    for kind, content in chunks:
        sum_of_it = struct.pack(">I", zlib.crc32(kind + content))
        made += struct.pack(">I", len(content)) + kind + content + sum_of_it
    return made


FORMATS: dict[str, Callable[[bytes, Random], bytes]] = {
    "json": _json_or_text,
    "yaml": _yaml_or_text,
    "csv": _text,
    "txt": _text,
    "safetensors": _safetensors,
    "npy": _npy,
    "npz": _zip,
    "ckpt": _zip,
    "png": _png,
}
