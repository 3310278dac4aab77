"""Rules for what ``torch.export.save`` of PyTorch 2.1 to 2.7 wrote.

PyTorch 2.13 still loads it where its ``version`` has the major number 8, by the schema of today, whose newer
fields all have defaults. So the program is checked like one in a ``.pt2``. Of other versions, PyTorch refuses
all: a note; then each node can be named, and texts of metadata are laid out as PyTorch writes them.

Pickled tensors are not checked. Source: ``load`` in ``torch/export/__init__.py`` of PyTorch 2.13.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from archive.base.errors import shown
from archive.base.json_text import read_json
from archive.check.inputs import check_inputs
from archive.check.loading.programs import program_faults
from archive.check.loading.programs.payloads import Payloads
from archive.check.programs import add_faults, note_layouts
from archive.formats.exported.mismatches import JsonFault
from archive.formats.exported.schema import MAJOR
from archive.formats.record_kinds import LEGACY_PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.check.diagnostic import Diagnostics
    from archive.reader.archive import Archive

VERSION = "version"
TENSORS = ("serialized_state_dict", "serialized_constants")
INPUTS = "serialized_example_inputs.pt"
PARTS = 2
"""Numbers in a version: 8.4."""
MAX_VERSION = 100
"""Bytes of a version that are looked at."""


def check_legacy_programs(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check the program of such an archive.

    Args:
        archive: the archive.
        readable: the records that can be read.
        report: takes the diagnostics.
    """
    add_faults(_missing(archive), "", report)
    version = ""
    if VERSION in readable:
        version = bytes(archive.records[VERSION].view()[:MAX_VERSION]).decode("utf-8", "replace")
        add_faults(_version_faults(version), VERSION, report)
    for name in (f"{name}.{ending}" for name in TENSORS for ending in ("pt", "json")):
        if name in readable:
            report.add("note", name, "", "tensors, as PyTorch wrote them before 2.8, are not checked")
    if INPUTS in readable:
        report.attempt(INPUTS, partial(check_inputs, archive.records[INPUTS], archive.allowance, report))
    major = version.partition(".")[0]
    if version.count(".") == PARTS - 1 and major != str(MAJOR):
        told = f"of schema {shown(version)}; PyTorch 2.13 reads {MAJOR} alone, so values are not checked"
        report.add("note", LEGACY_PROGRAM, "", told)
    elif LEGACY_PROGRAM in readable and report.attempt(LEGACY_PROGRAM, partial(_is_refused, archive, report)):
        return
    if LEGACY_PROGRAM in readable:
        report.attempt(LEGACY_PROGRAM, partial(_note_layouts, archive, report))


def _missing(archive: Archive) -> Iterator[JsonFault]:
    """The records that PyTorch asks for and that are not there."""
    if VERSION not in archive.records:
        message = "We ran into an error when deserializing the saved file"
        yield JsonFault("", f"expected a record {VERSION}, found none", message)
    for name in TENSORS:
        if not {f"{name}.pt", f"{name}.json"} & archive.records.keys():
            yield JsonFault("", f"expected a record {name}.pt, found none", f"{name} is None")
    if INPUTS not in archive.records:
        yield JsonFault("", f"expected a record {INPUTS}, found none", "serialized_example_inputs is None")


def _version_faults(version: str) -> Iterator[JsonFault]:
    if version.count(".") != PARTS - 1:
        message = "Version in the saved file has incorrect length"
        yield JsonFault("", f"expected {PARTS} numbers, found {shown(version)}", message)


def _is_refused(archive: Archive, report: Diagnostics) -> bool:
    """Check a program of today's schema; whether PyTorch refuses it."""
    with archive.allowance.part() as allowance:
        tree = read_json(archive.records[LEGACY_PROGRAM].view(), allowance)
        return add_faults(program_faults(tree, Payloads(None, None)), LEGACY_PROGRAM, report)


def _note_layouts(archive: Archive, report: Diagnostics) -> None:
    (program,) = archive.programs.values()
    note_layouts(LEGACY_PROGRAM, [(key, site.metadata) for key, site in program.sites.items()], report)
