"""``debug-archive symbolicate``: instructions of a program of ExecuTorch that has their frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import archive
from archive.base import memory
from archive.base.errors import in_file, shown
from archive.cli import printing
from archive.cli.status import Cause
from archive.io.urls import name_of
from archive.reader.lookups.framed import FramedInstructions
from archive.reader.recognition import FileKind
from archive.render.symbolicate import framed_facts

if TYPE_CHECKING:
    from archive.cli.asked import Asked
    from archive.cli.status import ExitStatus
    from archive.reader.lookups.framed import FramedInstruction
    from archive.render.symbolicate import FramedSources

NO_FRAMES = (
    "the program has no frames, which ExecuTorch's option emit_stacktrace writes; "
    "the ETRecord that was made with it has the source"
)


def print_framed(asked: Asked) -> ExitStatus:
    """Print the source of instructions; the status says whether some have none."""
    (file,) = asked.files
    with (
        archive.open(file, limits=asked.limits, mapped=asked.mapped, kinds={FileKind.EXECUTORCH}) as opened,
        memory.charged(opened.allowance),
        in_file(opened.file),
    ):
        instructions = FramedInstructions(opened)
        found = {name: instructions.named(name) for name in dict.fromkeys(asked.wanted)}
        every = [(name, one) for name, some in found.items() for one in some]
        if asked.as_json:
            facts: FramedSources = {
                "file": name_of(file),
                "instructions": [framed_facts(name, one) for name, one in every],
            }
            printing.write_document(facts)
        else:
            for _, one in every:
                _print(one, is_titled=len(every) > 1)
        lost = [f"no instruction {shown(name)}" for name, some in found.items() if not some]
        if every and not instructions.framed:
            lost.append(NO_FRAMES)
        elif every:
            lost += [f"no frames are recorded for {one.label}" for _, one in every if one.trace is None]
    for note in lost:
        printing.note(f"{file}: {note}")
    return Cause.UNKNOWN.when(lost)


def _print(one: FramedInstruction, *, is_titled: bool) -> None:
    if one.trace is not None:
        title, end = f"instruction {one.label}:\n" * is_titled, "\n" * is_titled
        printing.write(f"{title}{one.text}\n{end}".encode("utf-8", "surrogatepass"))
