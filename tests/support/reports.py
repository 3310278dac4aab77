"""Reports from devices, and what PyTorch prints where the debug records are at hand."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import archive
from archive.debuginfo.symbolicate import Style
from archive.failures.explainer import LogExplainer
from archive.failures.log.lines import Lines
from archive.failures.log.streams import PlainStream
from tests.support.corpus import FIXTURES, ORACLES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.failures.log.streams import LogStream

ORIGINAL_PART = re.compile(
    r"\nTraceback of TorchScript, original code \(most recent call last\):\n"
    r".*?(?=^[\w.]*(?:Error|Exception)\b)",
    re.DOTALL | re.MULTILINE,
)


class Report(NamedTuple):
    """A failure, without debug records and with them, and its archive."""

    path: Path
    stripped: bytes
    full: bytes


class Outcome(NamedTuple):
    text: bytes
    explained: int
    unknown: int
    notes: list[str]


def explained(
    log: bytes | Iterable[bytes], path: Path | archive.Archive, style: Style = Style.CURRENT
) -> Outcome:
    """A log explained by an archive; a fixture is opened once."""
    if isinstance(path, Path):
        path = (_opened if path.is_relative_to(FIXTURES) else archive.open)(path)
    explainer = LogExplainer.of(path, style=style)
    text = b"".join(explainer.explain([log] if isinstance(log, bytes) else log))
    return Outcome(text, explainer.explained, explainer.unknown, explainer.notes)


_opened = lru_cache(64)(archive.open)


def stream(*lines: bytes) -> LogStream:
    """The stream of a log's first line, without anything around its text."""
    ahead = Lines(lines)
    first = ahead.take()
    assert first is not None
    return PlainStream(first, ahead)


def case(name: str) -> Report:
    """A pair of `oracles`: the name of its text without `.txt`."""
    suffix = ".pt" if name.endswith(".jit") else ".ptl"
    stripped, full = ORACLES / f"{name}.stripped.txt", ORACLES / f"{name}.txt"
    return Report(ORACLES / (name.removesuffix(".jit") + suffix), stripped.read_bytes(), full.read_bytes())


def cases() -> list[Report]:
    """All pairs of `oracles`."""
    return [case(path.name.removesuffix(".stripped.txt")) for path in sorted(ORACLES.glob("*.stripped.txt"))]


@cache
def printed() -> tuple[tuple[Path, str], ...]:
    """Every error text of each release about its own archives."""
    found: list[tuple[Path, str]] = []
    for path in sorted(RELEASES.glob("*/made.json")):
        for made in json.loads(path.read_text("utf-8"))["files"]:
            found += [(path.parent / made["file"], text) for text in _texts(made)]
    return tuple(found)


@cache
def printed_by_213() -> tuple[tuple[Path, str], ...]:
    """Every error text of PyTorch 2.13 about the archives of all releases."""
    answers = json.loads((RELEASES / "oracle-2.13.0.json").read_text("utf-8"))
    return tuple((RELEASES / name, text) for name, answer in answers.items() for text in _texts(answer))


def without_original(text: str) -> bytes:
    """What PyTorch would have printed without source ranges."""
    stripped, count = ORIGINAL_PART.subn("", text)
    assert count == text.count("original code (most recent") > 0
    return stripped.replace("TorchScript, serialized code (", "TorchScript (").encode()


def _texts(value: object) -> Iterator[str]:
    """Every text under a key that names an error."""
    if isinstance(value, dict):
        for key, child in value.items():
            if isinstance(child, str) and "error" in key:
                yield child
            yield from _texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child)
