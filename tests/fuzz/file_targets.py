"""Targets for other files: zips, files of any kind, logs, texts that are searched, exported programs."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import suppress
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import archive
from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.json_text import read_json
from archive.base.limits import Limits
from archive.check.program_loader import program_faults
from archive.check.program_loader.files import Payloads
from archive.container.container import Container
from archive.describe.executorch import executorch_methods
from archive.failures.explainer import LogExplainer
from archive.formats.etdump import parse_etdump
from archive.formats.exported.program import Program, filled, left_of
from archive.privacy.leaks import LeakKind, leaks
from archive.reader.lookups.framed import FramedInstructions
from archive.reader.lookups.own_program import check_own
from archive.reader.recognition import FileKind
from archive.reader.runtime.noted import noted_run
from archive.reader.runtime.runs import run_of
from tests.fuzz.mutations import changed_bytes, changed_log, changed_zip, number, unsigned
from tests.fuzz.second_opinions import check_by_zipfile
from tests.fuzz.targets import Target, smallest
from tests.support import etdumps
from tests.support.broken_programs import found_at, positions, put
from tests.support.corpus import ARCHIVES, FIXTURES, ORACLES
from tests.support.exported import PROGRAMS, record
from tests.support.zips import write_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from archive.describe.executorch import ExecutorchMethod
    from archive.reader.archive import Archive

HEAD = 1 << 12
"""Bytes of files of other kinds."""
TOP, JOINED = "plain_unicode", "lowered_two"
"""The models whose failures the logs show: one with single handles, one with handles inside of others."""


def read_container(data: bytes) -> None:
    """A zip: what is rebuilt from its records holds the same records."""
    with Container.open(data, name="m") as opened:
        records = {name: bytes(record.view()) for name, record in opened.records.items()}
        out = io.BytesIO()
        write_again(out, opened)
        again = Container.open(out.getvalue(), name="again")
        assert again.root == opened.root
        assert {name: bytes(record.view()) for name, record in again.records.items()} == records
        check_by_zipfile(records, opened.root, data)


def read_kind(data: bytes) -> None:
    """A file of any kind."""
    assert archive.recognise(data).what


@cache
def _model(name: str) -> Archive:
    return archive.open(ORACLES / f"{name}.ptl")


def read_log(name: str, data: bytes) -> None:
    """A log; where nothing is explained, it stays as it is."""
    explainer = LogExplainer.of(_model(name))
    printed = b"".join(explainer.explain([data]))
    assert len(explainer.notes) <= 101
    if explainer.explained == 0:
        assert printed == data


def _zips() -> list[bytes]:
    return smallest([path.read_bytes() for path in ARCHIVES], 8, 6000)


def _kinds() -> list[bytes]:
    paths = [path for path in (FIXTURES / "kinds").iterdir() if path.is_file()]
    return [path.read_bytes()[:HEAD] for path in paths] + [
        path.read_bytes() for path in paths if path.stat().st_size < HEAD
    ]


def _logs(name: str) -> list[bytes]:
    return smallest([path.read_bytes() for path in ORACLES.glob(f"{name}*.txt")], 4)


def _changed_kind(chance: Random, data: bytes) -> bytes:
    return (
        changed_zip(chance, data)
        if data[:4] == b"PK\3\4" and chance.randrange(2)
        else changed_bytes(chance, data)
    )


TARGETS = {
    "container": Target(read_container, _zips, changed_zip),
    "kinds": Target(read_kind, _kinds, _changed_kind),
    "log": Target(partial(read_log, TOP), partial(_logs, TOP), changed_log),
    "joined": Target(partial(read_log, JOINED), partial(_logs, JOINED), changed_log),
}


# --- The target for those who search every text: whatever a record is, a path behind it is found


PATH = "/home/ann/model.py"
PLANTED = f"\0{PATH}\0".encode() * 3
"""Three times, for a string of what is before it may end in the middle of one."""


def read_texts(data: bytes) -> None:
    """An extra file of these bytes and a path: the path is found there, or the file is refused."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("m/extra/x", data + PLANTED)
        made.writestr("m/version", b"3\n")
    found = leaks(out.getvalue())
    places = [one.places for one in found.findings if (one.kind, one.text) == (LeakKind.HOME, PATH)]
    assert places, "a path that is not found"
    assert places[0][0].record.startswith("extra/x")


def _records() -> Iterator[bytes]:
    for path in [*ARCHIVES, *PROGRAMS]:
        with zipfile.ZipFile(path) as source:
            yield from (source.read(name) for name in source.namelist())


def _seeds() -> list[bytes]:
    files = [path.read_bytes() for path in FIXTURES.glob("companions/**/*.ptdbg")]
    files += [path.read_bytes() for path in ARCHIVES]
    return [*smallest(list(_records()), 24), *smallest(files, 4, 8_000)]


TARGETS |= {"texts": Target(read_texts, _seeds, changed_bytes)}


# --- The target for exported programs: JSON is read, checked, and built again of what is left of it


OTHERS: tuple[Any, ...] = (None, True, "x", [], {}, 1.5, float("inf"), float("nan"))


def read_program(data: bytes) -> None:
    """A program: what is left of it and its metadata give it again, and its faults are told."""
    with memory.charged(Limits().allowance(len(data))):
        tree = read_json(memoryview(data))
        assert all(fault.message for fault in program_faults(tree, Payloads({}, {})))
        sites = Program.of("model", tree).sites.values()
        left = left_of(memoryview(data))
        if left is not None:
            assert filled(memoryview(left), [site.metadata for site in sites]) == data


def changed_program(chance: Random, data: bytes) -> bytes:
    """A program with another value, one from elsewhere in it, or other bytes."""
    if not chance.randrange(4):
        return changed_bytes(chance, data)
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return data
    ways = list(positions(tree))
    if not ways:
        return data
    way = chance.choice(ways)
    value = found_at(tree, chance.choice(ways))
    if chance.randrange(2):
        value = chance.choice((*OTHERS, number(chance, 1)))
    return json.dumps(put(tree, way, value)).encode()


def _programs() -> list[bytes]:
    found = []
    for path in PROGRAMS:
        with zipfile.ZipFile(path) as source:
            found += [source.read(name) for name in source.namelist() if "/models/" in name]
    return smallest(found, 6, 16_000)


TARGETS |= {"program": Target(read_program, _programs, changed_program)}


# --- The target for ETDumps: a reader that shares no code reads the same, and profiles are made or refused


def read_etdump(data: bytes) -> None:
    """An ETDump."""
    blocks = parse_etdump(memoryview(data))
    assert etdumps.plain(blocks) == etdumps.as_read(etdumps.read(data))
    assert json.dumps(archive.profile_etdump(data).facts())
    archive.profile_etdump(data, record("region"))


def read_noted_values(data: bytes) -> None:
    """An ETDump with values, each at the call that returned it."""
    blocks = parse_etdump(memoryview(data))
    assert etdumps.plain(blocks) == etdumps.as_read(etdumps.read(data))
    for block in blocks:
        run = run_of(block)
        noted = noted_run(block, run)
        assert [each.call for each in noted.calls] == list(run.calls)
        assert sum(len(each.values) + each.inner for each in noted.calls) + len(noted.outputs) == len(
            block.values
        )


def changed_etdump(chance: Random, data: bytes) -> bytes:
    """An ETDump with other numbers at places of numbers, or other bytes."""
    if not chance.randrange(4):
        return changed_bytes(chance, data)
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        size = chance.choice((2, 4, 8))
        at = size * chance.randrange(len(out) // size)
        out[at : at + size] = unsigned(chance, int.from_bytes(out[at : at + size], "little"), size)
    return bytes(out)


def _dumps() -> list[bytes]:
    """ETDumps of one program."""
    return [etdumps.dump(name).read_bytes() for name in ("region", "failed", "values")]


def _noted() -> list[bytes]:
    """ETDumps with values."""
    return [etdumps.dump(name).read_bytes() for name in ("device", "delegated")]


TARGETS |= {
    "etdump": Target(read_etdump, _dumps, changed_etdump),
    "values": Target(read_noted_values, _noted, changed_etdump),
}


# --- The target for programs of ExecuTorch: whatever is read is counted, and compared with an ETRecord


def read_executorch(data: bytes) -> None:
    """A program: its sizes add up, its parts are read, and it is compared with the ETRecord of its seeds."""
    assert not any(one.severity == "internal error" for one in archive.verify(data))
    with archive.open(data, name="m", kinds={FileKind.EXECUTORCH}) as opened:
        account = archive.sizes(opened)
        assert sum(size.stored for size in account.by("kind").values()) == opened.size == len(data)
        named = FramedInstructions(opened)
        for one in named.named("0:0"):
            assert (one.trace is None) == one.text.endswith("\nNone")
        assert json.dumps([facts_of(one) for one in executorch_methods(memoryview(data)).values()])
        with archive.open(record("xnnpack")) as own, suppress(ArchiveError):
            assert check_own(own, opened).methods


def facts_of(one: ExecutorchMethod) -> dict[str, object]:
    """The facts of a method."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _executorch_programs() -> list[bytes]:
    return [
        (FIXTURES / "executorch" / f"{name}.pte").read_bytes() for name in ("xnnpack", "mutated", "framed")
    ]


TARGETS |= {"executorch": Target(read_executorch, _executorch_programs, changed_etdump)}
