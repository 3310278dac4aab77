"""Records that a model runs without: sample inputs of exported programs, and extra files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.mapped import Mapped
from archive.container.container import Container
from archive.formats.record_kinds import BUNDLED_INPUTS, RecordKind
from archive.reader.recognition import kind_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.privacy.redact.rules import Removed, Rules
    from archive.reader.archive import Archive

NO_INPUTS = b""
"""What PyTorch writes for a program without sample inputs; its loaders ask for the record."""
BUNDLED = re.compile(rb"X(.{4})(" + BUNDLED_INPUTS + rb"\w+)", re.DOTALL)
"""An attribute with sample inputs as pickles have its name, with its length before. Methods of the model give
these inputs out, so that they cannot go."""
OPTIONAL = {"reference_outputs", "representative_inputs"}
"""Records of ETRecords that may be missing, but not empty."""
LONGEST = 1 << 12
"""Bytes of a file by which it is searched for."""
LEAST_DISTINCT = 8
"""Different bytes in a tensor that is searched for: zeros and ones stand anywhere."""


def without_inputs(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes | None]:
    """The records of sample inputs, as those of programs without any; None where they may be missing."""
    made: dict[str, bytes | None] = {}
    for name in () if rules.inputs else _of_kind(opened, RecordKind.INPUTS):
        record = opened.records[name]
        if record.size:
            made[name] = None if name in OPTIONAL else NO_INPUTS
            removed.files |= set(_inside(record.view(), opened))
    for name in () if rules.inputs else _of_kind(opened, RecordKind.MODULES):
        for found in BUNDLED.finditer(opened.records[name].view()):
            attribute = found[2][: int.from_bytes(found[1], "little")].decode()
            removed.bundled.append(f"sample inputs {attribute} in {name}")
    return made


def without_extra(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes | None]:
    """No record in the place of each extra file."""
    made: dict[str, bytes | None] = {}
    for name in () if rules.extra else _of_kind(opened, RecordKind.EXTRA):
        made[name] = None
        removed.files.add(bytes(opened.records[name].view()[:LONGEST]).strip())
    return made


def _of_kind(opened: Archive, kind: RecordKind) -> list[str]:
    file = opened.recognised.kind
    return [name for name in opened.container.records if kind_in(file, name) is kind]


def _inside(data: memoryview, opened: Archive) -> Iterator[bytes]:
    """The bytes of the tensors in a file of ``torch.save``."""
    with Container(Mapped(data, opened.file), opened.allowance) as container:
        for name, record in container.records.items():
            if name.startswith("data/"):
                found = bytes(record.view()[:LONGEST])
                if len(set(found)) >= LEAST_DISTINCT:
                    yield found
