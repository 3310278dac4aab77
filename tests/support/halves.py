"""Archives split in two, and facts in a form that compares with ``==``."""

from __future__ import annotations

import io
import re
import zipfile
from bisect import bisect
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import archive
from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.companion.parse import parse_companion
from archive.reader.collect import collect
from archive.rewrite.join import join
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tests.support.corpus import ARCHIVES
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from archive import Redaction
    from archive.companion.contents import Contents
    from archive.reader.halves.kept import HandleChoice
    from archive.rewrite.shrink import Shrinkage
    from archive.rewrite.split import Split

LAYOUTS = list(CompanionLayout)
GROUPS = sorted({path.parent.name for path in ARCHIVES})
BARE = "torch-1.0.1"
"""The release that recorded no debug information."""
TIME = (2020, 2, 3, 4, 5, 6)


def era(name: str) -> int:
    """Which layout of source ranges a group has: PyTorch 1.2, 1.4, 1.9 and 1.12 brought one each."""
    release = tuple(map(int, re.findall(r"\d+", name))) or (2,)  # the oracles
    return bisect([(1, 4), (1, 9), (1, 12)], release)


DEBUG_GROUPS = [name for name in GROUPS if name != BARE]
SOME_GROUPS = sampled(DEBUG_GROUPS, by=[era])
"""Of those that have debug information."""


class Halves(NamedTuple):
    """What a split wrote, and what it said of that."""

    out: bytes
    companion: bytes
    said: Split


def group(name: str) -> list[Path]:
    """The archives of a release, or those of the oracles."""
    return [path for path in ARCHIVES if path.parent.name == name]


@cache
def halves(source: Path | bytes, layout: CompanionLayout = CompanionLayout.PACKED) -> Halves:
    """An archive, split."""
    with TemporaryDirectory() as folder:
        out, companion = Path(folder) / "out.pt", Path(folder) / "m.ptdbg"
        said = split(source, out, companion, layout=layout)
        return Halves(out.read_bytes(), companion.read_bytes(), said)


class Redacted(NamedTuple):
    """What a redaction wrote, and what it said of that."""

    out: bytes
    companion: bytes
    said: Redaction


@cache
def redacted(source: Path | bytes, **choices: Any) -> Redacted:  # noqa: ANN401 (those of redact)
    """A file that does not change, redacted."""
    out, companion = io.BytesIO(), io.BytesIO()
    said = archive.redact(source, out, companion, **choices)
    return Redacted(out.getvalue(), companion.getvalue(), said)


def split_companion(
    source: Path | bytes, handles: HandleChoice | None = None, *, fingerprints: bool = False, label: str = ""
) -> bytes:
    """The companion that a split makes whose archive has such handles."""
    with TemporaryDirectory() as folder:
        companion = Path(folder) / "m.ptdbg"
        out = Path(folder) / "out.pt"
        split(source, out, companion, handles=handles, fingerprints=fingerprints, label=label)
        return companion.read_bytes()


def joined(out: bytes, companion: bytes) -> tuple[bytes, bool]:
    """What a join writes, and whether it says that it is the file of before."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "joined.pt"
        said = join(out, companion, target)
        data = target.read_bytes()
    assert said.size == len(data)
    return data, said.exact


@cache
def facts_of(source: Path | bytes) -> Contents:
    """All debug information of an archive."""
    with archive.open(source) as opened:
        return collect(opened)


@cache
def companion_of(source: Path | bytes, layout: CompanionLayout = CompanionLayout.PACKED) -> bytes:
    """The companion of an archive, without the archive's own digest."""
    return build_companion(facts_of(source), layout)


class Plain(NamedTuple):
    """Facts as plain values."""

    archive_id: bytes
    columns: dict[str, list[int]]
    strings: list[bytes]
    raw: bytes


def plain_facts(facts: Contents) -> Plain:
    return Plain(
        facts.archive_id,
        {name: values.tolist() for name, values in sorted(facts.columns.items())},
        [bytes(facts.strings.data(string)) for string in range(len(facts.strings))],
        bytes(facts.raw),
    )


def parsed(data: bytes, limits: archive.Limits = DEFAULT_LIMITS) -> Contents:
    with memory.charged(limits.allowance(len(data))):
        return parse_companion(memoryview(data))


def rezipped(source: Path | bytes, compression: int) -> bytes:
    """The same records by an ordinary zip tool."""
    out = io.BytesIO()
    opened = io.BytesIO(source) if isinstance(source, bytes) else source
    with zipfile.ZipFile(opened) as before, zipfile.ZipFile(out, "w", compression) as target:
        for info in before.infolist():
            target.writestr(zipfile.ZipInfo(info.filename, TIME), before.read(info), compression)
    return out.getvalue()


@cache
def embedded(source: Path | bytes) -> tuple[bytes, Shrinkage]:
    """An archive with its debug information in a companion inside, and what was said of that."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "m.pt"
        said = shrink(source, target, level="embed")
        return target.read_bytes(), said
