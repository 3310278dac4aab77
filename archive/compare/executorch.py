"""Two programs of ExecuTorch, method by method: what they take, return and call, and the memory they plan.

Their FlatBuffers are the same if they say the same besides :data:`APART`, wherever it is in the file: frames
make everything move.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from archive.base.errors import counted, in_file
from archive.compare.changes import added, changed, gone
from archive.compare.sameness import Level, level_of
from archive.formats.executorch.program import program_root, read_program
from archive.formats.record_kinds import PROGRAM_RECORD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.compare.changes import Change
    from archive.formats.executorch.model import Method
    from archive.reader.archive import Archive

APART = ("Chain.stacktrace", "Buffer.storage", "BackendDelegateInlineData.data")
"""Fields that are records of their own: frames, inline constants and blobs."""


def graph_digest(archive: Archive) -> str:
    """The digest of what the FlatBuffer says."""
    with in_file(archive.file):
        digest = hashlib.sha256()
        for piece in program_root(archive._source.data).content(APART):  # noqa: SLF001 (the whole file)
            digest.update(piece)
        return digest.hexdigest()


def executorch_parts(archive: Archive) -> Mapping[str, str]:
    """The parts of a program, sorted, with their digests as hexadecimal digits."""
    return {
        name: (
            graph_digest(archive)
            if name == PROGRAM_RECORD
            else hashlib.sha256(archive.records[name].view()).hexdigest()
        )
        for name in sorted(archive.records)
        if level_of(archive, name) is Level.MODEL
    }


def executorch_changes(old: Archive, new: Archive) -> Iterator[Change]:
    """The rows about methods."""
    was, now = (_methods(archive) for archive in (old, new))
    for name in dict.fromkeys((*was, *now)):
        if name not in now:
            yield gone(Level.MODEL, "method", name, _in_words(was[name]))
        elif name not in was:
            yield added(Level.MODEL, "method", name, _in_words(now[name]))
        else:
            yield from _of_method(name, was[name], now[name])


def _of_method(name: str, was: Method, now: Method) -> Iterator[Change]:
    before, after = _facts(was), _facts(now)
    for fact, words in before.items():
        if words != after[fact]:
            yield changed(Level.MODEL, fact, name, words or "none", after[fact] or "none")
    old, new = ({**one.operator_calls, **one.backend_calls} for one in (was, now))
    for callee in sorted({*old, *new}):
        if old.get(callee) != new.get(callee):
            counts = (f"{one.get(callee, 0):,}" for one in (old, new))
            yield changed(Level.MODEL, "calls", f"{name}: {callee}", *counts)


def _methods(archive: Archive) -> dict[str, Method]:
    with in_file(archive.file):
        program = read_program(archive._source.data)  # noqa: SLF001 (the whole file)
        return {method.name: method for method in program.methods}


def _in_words(method: Method) -> str:
    return counted(len(method.instructions), "instruction")


def _facts(method: Method) -> dict[str, str]:
    """What is compared of a method, in words."""
    return {
        "inputs": ", ".join(map(method.type_of, method.inputs)),
        "outputs": ", ".join(map(method.type_of, method.outputs)),
        "instructions": f"{len(method.instructions):,}",
        "planned bytes": ", ".join(f"{size:,}" for size in method.planned),
    }
