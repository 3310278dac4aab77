"""Targets for whole archives: what one command makes, another undoes or tells in other words.

A changed archive is split and joined, shrunk and restored, migrated and taken back: each way back leads to
the file that there was. A failure is explained alike by the archive, by its companion alone, by both
together, and by the archive that embeds its companion. Two files are compared both ways.
"""

from __future__ import annotations

import io
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import archive
from archive.base.errors import ArchiveError
from archive.check.verify import verify
from archive.companion.layout import CompanionLayout
from archive.container.container import Container
from archive.container.write import new_member, write_archive
from archive.describe.inspect import inspect
from archive.describe.sizes import sizes
from archive.privacy.leaks import leaks
from archive.render.diff import diff_text
from archive.rewrite.join import join, restore
from archive.rewrite.migrate.migrate import migrate
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tests.fuzz.mutations import BROKEN, Stored, changed_records, changed_zip, records
from tests.fuzz.targets import Target
from tests.support.corpus import FIXTURES, RELEASES
from tests.support.halves import embedded

if TYPE_CHECKING:
    from random import Random

    from archive.reader.archive import Archive

T = TypeVar("T")
COMPARED = ("training/epoch1.pt", "training/epoch2.pt", "kinds/package.pt", "exported/noted.pt2")
"""Files that are compared, besides small archives: checkpoints, a package, an exported program."""
HANDLES = (0, 3, 11, 1 << 62)
WAYS = ("1.8", "1.9", "1.12", "latest", "pair-rows", "inline-rows", "string-table")


def read_archive(data: bytes) -> None:
    """An archive, as the commands read it that write nothing."""
    with archive.open(data, name="m.ptl") as opened:
        verify(opened)
        inspect(opened)
        sizes(opened)
        leaks(data)
        for handle in list(opened.handles)[:3]:
            str(opened.symbolicate(handle))


def split_and_join(data: bytes) -> None:
    """An archive that is split, joined, embedded and restored; either companion explains as it did."""
    out, companion = _scratch() / "out.ptl", _scratch() / "m.ptdbg"
    said = split(data, out, companion, layout=_one_of(tuple(CompanionLayout), data), force=True)
    left, facts = out.read_bytes(), companion.read_bytes()
    joined = io.BytesIO()
    assert join(left, facts, joined).exact == said.exact
    _check_back(data, joined.getvalue(), exact=said.exact)
    inside, restored = io.BytesIO(), io.BytesIO()
    shrink(data, inside, level="embed")
    assert restore(inside.getvalue(), restored).exact == said.exact
    _check_back(data, restored.getvalue(), exact=said.exact)
    explained = _explained(archive.open(data))
    assert _explained(archive.open(facts)) == explained, "the companion explains otherwise"
    assert _explained(archive.open(left, companion=facts)) == explained, "both together explain otherwise"
    assert _explained(archive.open(inside.getvalue())) == explained, "what is embedded explains otherwise"


def migrate_and_back(data: bytes) -> None:
    """An archive that is migrated, twice, and taken back."""
    there = migrate(data, to=_one_of(WAYS, data), lossy=True)
    again = migrate(there.data, to=_one_of(WAYS, data), lossy=True)
    if there.exact:
        assert again.data == there.data, "a second migration changes something"
    _check_back(data, migrate(there.data, to="original").data, exact=there.exact)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def _scratch() -> Path:
    return Path(_folder().name)


def _one_of(choices: tuple[T, ...], data: bytes) -> T:
    """A choice that follows from the data, so that an input always does the same."""
    return choices[zlib.crc32(data) % len(choices)]


def _check_back(data: bytes, back: bytes, *, exact: bool) -> None:
    """The way back gives the same file, or at least the same records."""
    if exact:
        assert back == data, "said to be exact"
        return
    before, after = (Container.open(one, name="m") for one in (data, back))
    assert [(name, bytes(record.view())) for name, record in before.records.items()] == [
        (name, bytes(record.view())) for name, record in after.records.items()
    ], "other records came back"


def _explained(opened: Archive) -> dict[int, bytes]:
    """What some handles are explained by; without those that are refused."""
    found = {}
    with opened:
        for handle in HANDLES:
            with suppress(ArchiveError):
                found[handle] = bytes(opened.symbolicate(handle))
    return found


def compare(data: bytes) -> None:
    """A file and another one: both ways tell as much; a digest that is the same belongs to the same model."""
    assert archive.diff(data, data).identical
    other = _one_of(tuple(_compared()), data)
    there, back = archive.diff(other, data), archive.diff(data, other)
    assert there.same_model == back.same_model, "one way they are the same model"
    assert bool(there.changes) == bool(back.changes), "one way there is no difference"
    assert set(there.unchecked) == set(back.unchecked), "one way more is compared"
    "\n".join(line for line, _ in diff_text(there, 0)).encode()
    if there.same_model:
        names = [set(archive.digest(one).parts) for one in (other, data)]
        assert {one for one in names[0] ^ names[1] if one.startswith("tensor/")} == set(), "other tensors"


def changed_archive(chance: Random, data: bytes) -> bytes:
    """An archive with other records, half of them laid out as PyTorch does it."""
    try:
        changed = changed_records(chance, data)
        return changed if chance.randrange(2) else as_by_pytorch(records(changed))
    except (*BROKEN, ArchiveError, ArithmeticError, LookupError, OSError, RuntimeError, ValueError):
        return data


def as_by_pytorch(parts: list[Stored]) -> bytes:
    """A zip of records, laid out and deflated as PyTorch does it."""
    out = io.BytesIO()
    root = parts[0].name.partition("/")[0]
    write_archive(
        out,
        root,
        [new_member(part.name.removeprefix(f"{root}/"), part.data, compress=part.deflated) for part in parts],
    )
    return out.getvalue()


def _archives() -> list[bytes]:
    paths = [RELEASES / f"torch-{name}" / "unicode.ptl" for name in ("1.8.0", "1.9.0", "2.13.0")]
    return [*(path.read_bytes() for path in paths), embedded(paths[-1])[0]]


def _with_little_else(path: Path) -> bytes:
    """An archive without tensors and constants."""
    parts = records(path.read_bytes())
    return as_by_pytorch([one for one in parts if "/constants" not in one.name and "/data/" not in one.name])


def _compared() -> list[bytes]:
    paths = [RELEASES / "torch-2.13.0" / name for name in ("unicode.pt", "unicode.ptl")]
    return [path.read_bytes() for path in (*paths, *(FIXTURES / name for name in COMPARED))]


def _small_archives() -> list[bytes]:
    names = ("1.8.0", "1.9.0", "1.12.0", "2.13.0")
    return [_with_little_else(RELEASES / f"torch-{name}" / "unicode.ptl") for name in names]


TARGETS = {
    "archive": Target(read_archive, _archives, changed_zip),
    "diff": Target(compare, _compared, changed_archive),
    "split": Target(split_and_join, _small_archives, changed_archive),
    "migrate": Target(migrate_and_back, _small_archives, changed_archive),
}
"""Each execution is several commands, one after the other: some 20 a second."""
