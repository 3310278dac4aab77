"""Zips that lie: about sizes, names, offsets, and by headers that disagree.

Each comes as a model, ``m.pt``, and as a file of ``torch.save``, ``w.pt``, whose ``data.pkl`` runs a command
when Python reads it. Scanners that read such zips otherwise than PyTorch does, or not at all, miss that.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from tests.attacks.attack import MIB, Attack
from tests.attacks.payloads import PAYLOADS
from tests.attacks.pieces import pickled
from tests.attacks.records import MADE, ONE_LINE, READ
from tests.attacks.zips import (
    NO_SIZE,
    Entry,
    central_header,
    closing,
    deflated,
    end64,
    entries_of,
    entry,
    overlapped,
    sizes64,
    zipped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PAYLOAD = pickled(PAYLOADS["REDUCE"])
SAVED = {"data.pkl": PAYLOAD, "byteorder": b"little"}
COMMANDS = (*READ, "inspect w.pt", "verify w.pt", "sizes w.pt", *MADE)
DATA = 0
"""The place of ``data.pkl`` in both files."""


def both(change: Callable[[list[Entry]], bytes]) -> Callable[[], dict[str, bytes]]:
    """Both files, each made of its entries."""
    return lambda: {"m.pt": change(entries_of(ONE_LINE)), "w.pt": change(entries_of(SAVED))}


def data_says(
    *, local: bool = True, central: bool = True, **fields: object
) -> Callable[[], dict[str, bytes]]:
    """Both files, with other fields in one or both headers of ``data.pkl``."""

    def change(entries: list[Entry]) -> bytes:
        entries[DATA] = entries[DATA].saying(local=local, central=central, **fields)
        return zipped(*entries)

    return both(change)


def with_entries(*more: Entry) -> Callable[[], dict[str, bytes]]:
    """Both files, with more entries."""
    return both(lambda entries: zipped(*entries, *more))


def _sizes_of_64_bits(entries: list[Entry]) -> bytes:
    """``data.pkl`` and a record of code, each with sizes of 2^63 in its extra field."""
    huge = sizes64((1 << 63) - 1, (1 << 63) - 1)
    big = entry("m/code/big.py", b"pass\n")
    lying = [
        one.saying(local=False, stored=NO_SIZE, size=NO_SIZE, extra=huge) for one in (entries[DATA], big)
    ]
    return zipped(*lying, *entries[1:])


def _counted(count: int) -> Callable[[list[Entry]], bytes]:
    """A zip whose end states another number of entries."""
    return lambda entries: zipped(*entries, count=count)


def _counted_64(entries: list[Entry]) -> bytes:
    """A zip whose end of 64 bits states 2^40 entries."""
    plain = zipped(*entries)
    at = plain.rindex(b"PK\5\6")
    size, start = struct.unpack_from("<2I", plain, at + 12)
    return plain[:at] + end64(1 << 40, size, start, at)


def _directory_in_itself(entries: list[Entry]) -> bytes:
    """A zip whose central headers lead into the directory."""
    plain = zipped(*entries)
    at = plain.index(b"PK\1\2")
    lines = [central_header(one.central._replace(offset=at)) for one in entries]
    return plain[:at] + closing(lines, at)


def _end_in_a_circle(entries: list[Entry]) -> bytes:
    """A zip whose end of 64 bits is located at the locator itself."""
    plain = zipped(*entries)
    at = plain.rindex(b"PK\5\6")
    return plain[:at] + end64(len(entries), 10, at, at + 56)


def _two_directories(entries: list[Entry]) -> bytes:
    """A zip in whose comment stands another zip, without the payload."""
    other = entry("m/data.pkl", pickled(b"N"))
    return zipped(*entries, comment=zipped(other, *entries[1:]))


def _overlapping() -> dict[str, bytes]:
    """5,000 entries that are one deflated megabyte: 5 GB in 400 KB."""
    code = b"\n" * MIB
    stream = deflated(code)
    return {"m.pt": overlapped(stream, len(code), zlib.crc32(code), 5_000)}


def _more_than_declared() -> dict[str, bytes]:
    """Code that states 10 bytes and inflates to 64 MB."""
    bomb = Entry(*entry("m/code/b.py", b"x" * 10)[:2], deflated(bytes(64 * MIB)))
    bomb = bomb.saying(method=8, stored=len(bomb.data))
    return {"m.pt": zipped(*entries_of(ONE_LINE), bomb), "w.pt": zipped(*entries_of(SAVED), bomb)}


LINK = 0o120777 << 16
HOSTILE_NAMES = (
    b"m/../../../escaped.py",
    b"/etc/escaped",
    b"m/code/..\\..\\escaped.py",
    b"C:\\escaped.py",
    b"m/code/\x1b[2J\x1b[1;1Hwell.py",
    b"m/code/a\nm.pt: well.py",
    b"m/code/\xe2\x80\xaegpj.py",
    b"m/code/\xc2\x9b31m.py",
    b"m/code/\xff\xfe.py",
    b"m/code/nul\0.py",
    b"m/" + b"n" * 60_000,
    b"m/",
    b"",
)

ATTACKS = {
    "sizes of 2^63": Attack(
        "Records that state 2^63 bytes in fields of 64 bits.", both(_sizes_of_64_bits), COMMANDS
    ),
    "sizes of 4 GB": Attack(
        "A stored record that states 4 GB in both headers.",
        data_says(size=NO_SIZE - 1, stored=NO_SIZE - 1),
        COMMANDS,
    ),
    "more than declared": Attack(
        "A record that states 10 bytes and inflates to 64 MB.", _more_than_declared, COMMANDS
    ),
    "another local size": Attack(
        "The local header states other sizes than the directory.",
        data_says(central=False, size=1, stored=1),
        COMMANDS,
    ),
    "another local name": Attack(
        "The local header of the payload names another record than the directory.",
        data_says(central=False, name=b"m/harmless.txt"),
        COMMANDS,
    ),
    "another central name": Attack(
        "The directory names the payload's record another way than the local header.",
        data_says(local=False, name=b"m/DATA.pkl"),
        COMMANDS,
    ),
    "another local method": Attack(
        "The local header states another compression than the directory.",
        data_says(central=False, method=8),
        COMMANDS,
    ),
    "another crc": Attack("A record whose checksum is wrong.", data_says(crc=0x12345678), COMMANDS),
    "encrypted": Attack("Flags that say a record is encrypted; it is not.", data_says(flags=1), COMMANDS),
    "encrypted in the directory": Attack(
        "The same in the directory alone.", data_says(local=False, flags=1), COMMANDS
    ),
    "unknown method": Attack("A compression that nobody knows.", data_says(method=99), COMMANDS),
    "duplicate names": Attack(
        "Two records of one name, the second harmless.",
        with_entries(entry("m/data.pkl", pickled(b"N"))),
        COMMANDS,
    ),
    "colliding names": Attack(
        "Two records whose names differ in case alone.",
        with_entries(entry("m/DATA.PKL", pickled(b"N")), entry("M/data.pkl", pickled(b"N"))),
        COMMANDS,
    ),
    "hostile names": Attack(
        "Names that lead out of the folder, forge lines, move a terminal's cursor, or are invalid.",
        lambda: {
            f"{at}.pt": zipped(*entries_of(ONE_LINE), entry(n, b"x")) for at, n in enumerate(HOSTILE_NAMES)
        },
        tuple(
            f"{verb} {at}.pt" for at in range(len(HOSTILE_NAMES)) for verb in ("inspect", "verify", "sizes")
        ),
    ),
    "links": Attack(
        "An entry that is a symbolic link to a file outside.",
        with_entries(entry("m/code/link.py", b"/etc/passwd").saying(local=False, attributes=LINK)),
        COMMANDS,
    ),
    "entry flood": Attack(
        "16,000 empty entries.",
        lambda: {"m.pt": zipped(*entries_of(ONE_LINE), *(entry(f"m/extra/{n}", b"") for n in range(16_000)))},
        (*READ, "sizes m.pt --by record -n 0", *MADE, "redact m.pt -o r.pt -c r.ptdbg --for publish"),
    ),
    "folder flood": Attack(
        "An entry in 20,000 folders, one in another.",
        with_entries(entry("m/code/" + "d/" * 20_000 + "x.py", b"pass\n")),
        (*COMMANDS, "sizes m.pt --by record"),
    ),
    "more entries than there are": Attack(
        "The end of the zip states 65,534 entries.", both(_counted(0xFFFE)), COMMANDS
    ),
    "2^40 entries": Attack("The end of the zip states 2^40 entries.", both(_counted_64), COMMANDS),
    "directory in itself": Attack(
        "The directory's headers lead into the directory.", both(_directory_in_itself), COMMANDS
    ),
    "end in a circle": Attack("The end of the zip locates itself.", both(_end_in_a_circle), COMMANDS),
    "two directories": Attack(
        "A second, harmless zip in the comment of the first.", both(_two_directories), COMMANDS
    ),
    "something before": Attack(
        "Bytes in front of the zip.",
        both(lambda entries: zipped(*entries, before=b"\x7fELF" + bytes(60))),
        COMMANDS,
    ),
    "overlapping entries": Attack(
        "5,000 records that are one deflated megabyte: 5 GB in 300 KB.", _overlapping, (*READ, *MADE)
    ),
}
