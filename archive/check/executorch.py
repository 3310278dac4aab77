"""Checks programs of ExecuTorch, beyond what reading one refuses (:mod:`archive.formats.executorch.program`).

Warnings: an operator or a backend's blob that no instruction calls, and planned tensors of two inputs that
share bytes, so that setting one changes the other. Notes: segments that nothing refers to.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from archive.base.errors import one_line, shown
from archive.check.bytes_only import NO_CHECKSUMS
from archive.formats.executorch import xnnpack
from archive.formats.executorch.frames import read_frames
from archive.formats.executorch.layout import DELEGATE_CALL, KERNEL_CALL
from archive.formats.executorch.program import read_program
from archive.formats.record_kinds import BLOBS, PROGRAM_RECORD, SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.diagnostics import Diagnostics
    from archive.formats.executorch.model import Method
    from archive.reader.records import TensorRecords


def check_program(file: TensorRecords, report: Diagnostics) -> None:
    """Check a program that could be read."""
    program, frames = read_program(file.data), read_frames(file.data)
    for method in program.methods:
        _check_method(method, report)
    for name, record in file.records.items():
        if name.startswith(SEGMENTS):
            report.add("note", name, "", "nothing in the program refers to this segment")
        elif name.startswith(BLOBS) and name.endswith(f".{xnnpack.BACKEND}"):
            graph = report.attempt(name, lambda: xnnpack.read_graph(record.view()))  # noqa: B023 (called at once)
            report.looked(len(graph.nodes) if graph else 0, "node", "of XNNPACK with a debug handle")
    report.looked(len(program.methods), "method", "with values, instructions and planned memory")
    report.looked(sum(each.framed for each in frames.values()), "instruction", "with frames")
    report.looked(len(program.segments), "segment", "within the file, without overlaps")
    report.unchecked.append(NO_CHECKSUMS)


def _check_method(method: Method, report: Diagnostics) -> None:
    place = one_line(method.name)
    for kind, names in ((KERNEL_CALL.name, method.operators), (DELEGATE_CALL.name, _backends(method))):
        called = {each.target for each in method.instructions if each.kind == kind}
        for number in sorted({*range(len(names))} - called):
            message = f"no instruction calls number {number}, {shown(names[number])}"
            report.add("warning", PROGRAM_RECORD, place, message)
    inputs = [method.tensors[number] for number in method.inputs if number in method.tensors]
    spans = sorted((each.buffer, each.offset, each.offset + each.bytes) for each in inputs if each.buffer)
    for (buffer, _, stop), (other, start, _) in pairwise(spans):
        if buffer == other and start < stop:
            message = f"two inputs share bytes from {start:,} to {stop:,} of buffer {buffer}"
            report.add("warning", PROGRAM_RECORD, place, message)


def _backends(method: Method) -> Sequence[str]:
    return [blob.backend for blob in method.blobs]
