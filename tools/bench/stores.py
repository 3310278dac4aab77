"""What a store takes, on the disk and in time: the numbers of ``docs/how-to/store.md``.

- Sizes: releases of one team's model (:mod:`tools.team_releases`), and one model saved by the releases of
  PyTorch under ``fixtures/releases``, against separate companions of both layouts, and against zstd with a
  dictionary that it trained on these companions, in their packed and in their plain form.
- Times: to open a companion of a store, to give it out, and to explain a log of 200 failures of three models,
  with hundreds of companions in a store and in a folder.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, NamedTuple

import zstandard

from archive.base.limits import DEFAULT_LIMITS
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.companion.parse import parse_companion
from archive.store.adding import MadeCompanion, NoDebugInfoError, TakenError, made_of
from archive.store.plain import PlainForm
from archive.store.store import Store
from tools import team_releases
from tools.bench.logs import FLEET, fleet, linked
from tools.bench.measuring import COMMAND, FIXTURES, Aim, Table, best, in_turn, run, spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.companion.contents import Contents

COUNTS = (10, 20)
FIRST = (
    "the first release takes 0.148 (.ptl 0.131), of which digests of lines, which are random, 0.048; all "
    "others 0.139, of which new digests 0.024, headers and ids 0.022; xz -9e of all ten together takes 0.29 "
    "(.ptl 0.28); a dictionary of all releases before, in the place of the base, made a store larger"
)
MANY = 300
DICTIONARY = 1 << 17


class Sizes(NamedTuple):
    """Bytes of n companions.

    Attributes:
        number: n.
        packed: of separate packed companions.
        mapped: of separate mapped ones.
        trained: by zstd with a trained dictionary, which counts too: of plain forms, or of packed companions,
            whichever is smaller.
        kept: of the store's files, without its index.
        blocks: of the same on a disk of 4 KB blocks.
        packed_blocks: of the packed ones there.
    """

    number: int
    packed: int
    mapped: int
    trained: int
    kept: int
    blocks: int
    packed_blocks: int


def companions_of(files: Sequence[Path]) -> list[MadeCompanion]:
    """The companions of some archives, in their order."""
    companions = []
    for file in files:
        with suppress(NoDebugInfoError):
            companions.append(made_of(file, "", DEFAULT_LIMITS))
    return companions


def measured(companions: Sequence[MadeCompanion]) -> Sizes:
    """Sizes of some companions; those of one id count once."""
    made: list[bytes] = []
    with TemporaryDirectory() as place, Store.open(Path(place) / "store", create=True) as store:
        for companion in companions:
            with suppress(TakenError):
                store.add(companion)
                made.append(companion.companion)
        kept = [entry.kept_size for entry in store.entries()]
    mapped = [build_companion(parsed(one), CompanionLayout.MAPPED) for one in made]
    plain = [PlainForm.of(memoryview(one)).data for one in made]
    return Sizes(
        len(made),
        sum(map(len, made)),
        sum(map(len, mapped)),
        min(trained(made), trained(plain)),
        sum(kept),
        sum(map(in_blocks, kept)),
        sum(in_blocks(len(one)) for one in made),
    )


def parsed(companion: bytes) -> Contents:
    """The contents of a companion."""
    return parse_companion(memoryview(companion))


def in_blocks(size: int) -> int:
    """Bytes of a file on a disk of 4 KB blocks."""
    return -(-size // 4096) * 4096


def trained(samples: Sequence[bytes]) -> int:
    """Bytes of samples by zstd with a dictionary that was trained on them, and of the dictionary."""
    try:
        words = zstandard.train_dictionary(DICTIONARY, list(samples), level=19)
    except zstandard.ZstdError:  # too few samples
        return 1 << 60
    engine = zstandard.ZstdCompressor(level=19, dict_data=words)
    whole = len(zstandard.ZstdCompressor(level=19).compress(words.as_bytes()))
    return whole + sum(len(engine.compress(one)) for one in samples)


def sizes(folder: Path) -> Iterator[Table | Aim]:
    """What companions take."""
    releases = folder / "models" / "releases"
    if not releases.exists():
        made = Path(mkdtemp(dir=folder))
        team_releases.make(made, max(COUNTS))
        made.rename(releases)
    rows = []
    for name, bytes_of in _sizes(releases):
        share = bytes_of.kept / bytes_of.packed
        ratios = (f"{share:.3f}", f"{bytes_of.blocks / bytes_of.packed_blocks:.3f}")
        rows.append((name, *(f"{size:,}" for size in bytes_of[:5]), *ratios))
        if name.startswith(f"{COUNTS[0]} "):
            yield Aim(f"a store of {name}, of packed companions", share, 0.1, "x", reason=FIRST)
    headings = ("companions of", "n", "packed", "mapped", "zstd, trained", "store", "of packed", "in blocks")
    yield Table("Stores: bytes", headings, rows)


def _sizes(releases: Path) -> Iterator[tuple[str, Sizes]]:
    for form in ("pt", "ptl"):
        companions = companions_of(sorted(releases.glob(f"*.{form}")))
        for count in COUNTS:
            yield f"{count} releases of one model, .{form}", measured(companions[:count])
    for name in ("nested.ptl", "nested.pt"):
        files = sorted((FIXTURES / "releases").glob(f"*/{name}"))
        yield f"{name}, saved by releases of PyTorch", measured(companions_of(files))


def times(folder: Path) -> Iterator[Table | Aim]:
    """Times: to fill a store, to open one companion, and to begin with a log."""
    paths = fleet(folder, MANY)
    with TemporaryDirectory() as place:
        path = Path(place) / "many.store"
        start = spent()
        with Store.open(path, create=True) as store:
            for companion in paths:
                store.add(companion)
        rows: list[tuple[object, ...]] = [(f"adding {MANY:,} companions", f"{spent() - start:.1f} s")]
        size = store.folder.index.stat().st_size
        store.folder.index.unlink()
        start = spent()
        with Store.open(path) as store:
            store.entries()
        rows.append((f"making the index of {size:,} bytes", f"{spent() - start:.1f} s"))
        rows.append(("opening the store with its index", many(lambda: Store.open(path).entries())))
        entries = sorted(store.entries(), key=lambda entry: entry.depth)
        for archive_id, depth in ((entry.archive_id, entry.depth) for entry in (entries[0], entries[-1])):
            opened = many(lambda: Store.open(path).opened(archive_id).top)  # noqa: B023 (used at once)
            given = many(lambda: Store.open(path).companion(archive_id))  # noqa: B023
            rows += [(f"opening a companion with {depth} bases", opened), ("giving it out", given)]
        for name, models in (("the store", path), ("the folder", linked(paths, folder / "many"))):
            words = ("symbolicate", models, "--log", FLEET / "unique.log")
            seconds = best(partial(run, *COMMAND, *words, statuses=(0, 1)), 2)
            rows.append((f"a log of 200 failures, with {name}", f"{seconds:.2f} s"))
    yield Table("Stores: time", (f"{MANY:,} companions", "CPU"), rows)


def many(work: Callable[[], object]) -> str:
    """The time that one of many runs takes."""
    return f"{in_turn(work, calls=20)[0] * 1e3:.1f} ms"


def measure(folder: Path) -> Iterator[Table | Aim]:
    """Both."""
    yield from sizes(folder)
    yield from times(folder)
