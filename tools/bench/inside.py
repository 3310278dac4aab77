"""How commands grow with the number of things inside one file, one log, one store, one folder.

Each command is a process of its own, on three sizes: the smallest shows what starting takes, which is taken
off the other two; the power of the size by which the rest grows should be 1. Source-range rows have a part of
their own (:mod:`tools.bench.growth`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from archive.store.client.cache import VARIABLE
from tests.support.servers import Running
from tools.bench import many
from tools.bench.growth import GROWTH, costs, exponent
from tools.bench.logs import FLEET, fleet, linked
from tools.bench.measuring import COMMAND, Aim, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Make = Callable[[Path, int], Path]

OUT = ("-o", "{out}.pt", "-c", "{out}.ptdbg", "--force")
ROUNDS, LONG = 4, 1.0
"""Runs of each, of which the least counts, until they have taken so many seconds together."""
NOISE = 0.05
"""Of the time for few, by which runs differ."""
NOTE = (
    "CPU of whole processes; *growth* is the power by which it grows from the second number to the third, "
    "all less those of the smallest. Measured once (`python -m tools.bench much`), with much other work: "
    "by a store of 5,000 models `symbolicate` 0.73 s (of 1,250, 0.61), by its server 0.74 (0.68); "
    "`store add` of 5,000 companions 75.0 s (of 1,250, 19.7); `inspect` of "
    "6,000 archives 35.4 s (of 1,500, 10.9). A third of `store add` compresses columns by LZMA once more, "
    "to prove that the companion comes back to the byte."
)
LARGE = (
    ("tensors", "25,000 / 100,000", "`inspect`", "3.1 s", "13.5 s", "1.09"),
    ("tensors", "25,000 / 100,000", "`sizes`", "1.8 s", "6.1 s", "1.05"),
    ("tensors", "25,000 / 100,000", "`leaks`", "3.8 s", "15.1 s", "1.05"),
    ("tensors", "25,000 / 100,000", "`digest`", "5.4 s", "23.2 s", "1.08"),
    ("tensors", "25,000 / 100,000", "`report`", "8.2 s", "31.6 s", "1.03"),
    ("records of code", "4,000 / 16,000", "`inspect`", "1.4 s", "5.2 s", "1.09"),
    ("records of code", "4,000 / 16,000", "`sizes`", "0.9 s", "2.5 s", "1.08"),
    ("records of code", "4,000 / 16,000", "`leaks`", "5.2 s", "20.8 s", "1.04"),
    ("records of code", "4,000 / 16,000", "`digest`", "1.6 s", "5.5 s", "1.06"),
    ("records of code", "4,000 / 16,000", "`report`", "20.7 s", "77.3 s", "0.98"),
    ("records of code", "4,000 / 16,000", "`verify`", "4.1 s", "16.1 s", "1.04"),
    ("records of code", "4,000 / 16,000", "`split`", "7.4 s", "24.8 s", "0.90"),
    ("records of code", "4,000 / 16,000", "`redact --paths basename`", "26.7 s", "103.1 s", "0.99"),
    ("records of code", "4,000 / 16,000", "`shrink`", "11.6 s", "40.5 s", "0.91"),
    ("failures in a log", "25,000 / 100,000", "`symbolicate`", "8.5 s", "29.9 s", "0.94"),
)
LARGE_NOTE = (
    "Measured once: `python -m tools.bench much` measures them again, in an hour. "
    "The machine had much other work, so times are up to twice as "
    "long as those above, and growth of one command differed by up to 0.2 between runs. In profiles of "
    "`inspect`, `digest`, `split` and `shrink`, each function that takes time is called four times as often "
    "for four times as many. Of 100,000 tensors, Python's collector takes 1.1 s of `inspect`, of 25,000 0.1."
)
SHORT = (
    "a few hundredths of a second more or less decide at these sizes; of about ten times as many it is "
    "0.90 to 1.09 (a table above). What is looked at for each record is counted by tests: "
    "`tests/costs/test_columns.py`, `test_doubling.py`"
)
"""Why growth is missed."""


class Growing(NamedTuple):
    """Something that there is more and more of.

    Attributes:
        what: it is.
        sizes: how many: few, some, many.
        make: makes a file, log, store or folder with so many, at a path.
        commands: that read it; ``{}`` is the file, ``{out}`` what is written, ``{few}`` the smallest one.
    """

    what: str
    sizes: tuple[int, int, int]
    make: Make
    commands: Sequence[tuple[str, ...]]


def folder_of(path: Path, size: int) -> Path:
    """A folder of archives, each with names and source of its own."""
    path.mkdir()
    for at in range(size):
        many.code(path / f"model-{at:05}.pt", 1 + at % 3)
    return path


def companions(path: Path, size: int) -> Path:
    """A folder of companions of edited models."""
    return linked(fleet(path.parents[1], size, edited=True), path)


def store_of(path: Path, size: int) -> Path:
    """The store beside it that was made of such a folder."""
    return path.with_name(f"companions-{size}.store")


FILE = "{}"
IN_FILES = (
    *(("inspect", FILE), ("sizes", FILE), ("leaks", FILE), ("digest", FILE), ("diff", FILE, "{few}")),
    ("report", FILE, "-o", "{out}.html", "--force"),
)
UNIQUE = str(FLEET / "unique.log")
ADDING = ("store", "add", FILE, "--store", "{}.store")
"""Done once: what is added again is there already."""
MODELS = (5, 100, 400)
"""Companions of a folder; then models of the stores that were made of it."""
GROWING = (
    Growing("tensors", (100, 1_500, 8_000), many.tensors, IN_FILES),
    Growing(
        "records of code",
        (10, 500, 2_000),
        many.code,
        (*IN_FILES, ("verify", FILE), ("split", FILE, *OUT), ("shrink", FILE, "-o", "{out}.pt", "--force")),
    ),
    Growing(
        "failures in a log",
        (10, 2_000, 10_000),
        many.failures,
        (
            ("symbolicate", str(FLEET), "--log", FILE),
            ("symbolicate", str(FLEET), "--log", FILE, "--top=5"),
        ),
    ),
    Growing("companions", MODELS, companions, (ADDING, ("symbolicate", FILE, "--log", UNIQUE))),
    Growing(
        "models of a store",
        MODELS,
        store_of,
        (
            ("symbolicate", FILE, "--log", UNIQUE),
            ("store", "ls", "--store", FILE),
            ("store", "check", "--store", FILE),
        ),
    ),
    Growing(
        "archives of a folder",
        (80, 200, 600),  # of fewer, not all processes are started
        folder_of,
        (("inspect", FILE), ("leaks", FILE), ("symbolicate", FILE, "--log", UNIQUE)),
    ),
)


def least(run: Callable[[int], float]) -> float:
    """Seconds of a process at its best; a run is given its number."""
    taken = [run(0)]
    while len(taken) < ROUNDS and sum(taken) < LONG:
        taken.append(run(len(taken)))
    return min(taken)


def taken_by(words: list[str]) -> float:
    """Seconds of a command at its best; what is added to a store is added once."""
    return costs(words)[0] if "add" in words else least(lambda _: costs(words)[0])


def growth_of(seconds: Sequence[float], sizes: tuple[int, int, int]) -> float:
    """The power by which seconds grow with what there is beyond few; less than noise is noise."""
    few, *more = seconds
    some, most = (max(span - few, NOISE * few) for span in more)
    return exponent(some, most, (sizes[1] - sizes[0], sizes[2] - sizes[0]))


def grown(kind: Growing, made: Sequence[Path], out: Path) -> Iterator[tuple[str, list[float], float]]:
    """The name of each command, its seconds, and its growth."""
    for words in kind.commands:
        shown = " ".join(word for word in words if "=" in word or not word.startswith(("/", "-", "{")))
        filled = [[*COMMAND, *(word.format(file, few=made[0], out=out) for word in words)] for file in made]
        seconds = list(map(taken_by, filled))
        yield shown, seconds, growth_of(seconds, kind.sizes)


def rows_of(kind: Growing, folder: Path) -> Iterator[tuple[object, ...] | Aim]:
    """A row for each command, and the aim of the steepest."""
    made = [kind.make(folder / f"{kind.what.replace(' ', '-')}-{size}", size) for size in kind.sizes]
    yield from _rows(kind, list(grown(kind, made, folder / "out")))


def _rows(
    kind: Growing, measured: Sequence[tuple[str, list[float], float]]
) -> Iterator[tuple[object, ...] | Aim]:
    sizes = " / ".join(f"{size:,}" for size in kind.sizes)
    for name, seconds, growth in measured:
        missed = "" if growth <= GROWTH else "missed"
        yield (kind.what, sizes, f"`{name}`", *(f"{span:.2f} s" for span in seconds), f"{growth:.2f}", missed)
    name, _, growth = max(measured, key=lambda row: row[2])
    of = f"{len(measured)} commands" if len(measured) > 1 else "one command"
    what = f"growth with {kind.what}, the steepest of {of}: `{name}`"
    yield Aim(what, growth, GROWTH, "", reason=SHORT if kind.what in {row[0] for row in LARGE} else "")


def served(folder: Path, sizes: tuple[int, int, int] = MODELS) -> Iterator[tuple[object, ...] | Aim]:
    """A log that a client explains by a server's store; it has fetched nothing before."""
    kind = Growing("models of a server's store", sizes, store_of, ())
    seconds = []
    for size in sizes:
        with Running(store_of(folder / "served", size)) as server:
            words = [*COMMAND, "symbolicate", "--store", server.url, "--log", UNIQUE]

            def fetching(at: int) -> float:
                os.environ[VARIABLE] = str(folder / f"cache-{size}-{at}")  # noqa: B023 (used at once)
                return costs(words)[0]  # noqa: B023

            seconds.append(least(fetching))
    yield from _rows(kind, [("symbolicate", seconds, growth_of(seconds, kind.sizes))])


def measure(folder: Path) -> Iterator[Table | Aim]:
    """All of them."""
    place = folder / "inside"
    place.mkdir(parents=True)
    results = [result for kind in GROWING for result in rows_of(kind, place)]
    results += served(place)
    rows = [result for result in results if not isinstance(result, Aim)]
    headings = ("number of", "few / some / many", "command", "few", "some", "many", "growth", "")
    yield Table("Growth with what is inside", headings, rows, NOTE)
    largest = ("number of", "some / many", "command", "some", "many", "growth")
    yield Table("Growth with much more inside", largest, LARGE, LARGE_NOTE)
    yield from (result for result in results if isinstance(result, Aim))
