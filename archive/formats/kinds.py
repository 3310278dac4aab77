"""What a record is, told by its name alone."""

from __future__ import annotations

from enum import StrEnum

from archive.formats import bytecode, callstack_map, methods, source_ranges


class RecordKind(StrEnum):
    """The kinds of records in a model archive."""

    TENSOR = "tensor"
    MODULES = "module tree"
    CONSTANTS = "constants"
    CODE = "generated code"
    RANGES = "source ranges"
    DELEGATED = "delegated source ranges"
    CALLSTACKS = "call-stack map"
    HANDLES = "method handles"
    PATHS = "module paths"
    BYTECODE = "bytecode"
    EXTRA = "extra file"
    FORMAT = "archive format"
    OTHER = "other"

    @property
    def is_debug(self) -> bool:
        """Whether it is debug information: PyTorch runs the model without it."""
        return self in DEBUG


DEBUG = {
    RecordKind.RANGES,
    RecordKind.DELEGATED,
    RecordKind.CALLSTACKS,
    RecordKind.HANDLES,
    RecordKind.PATHS,
}
EXACT = {
    "data.pkl": RecordKind.MODULES,
    "model.json": RecordKind.MODULES,
    "attributes.pkl": RecordKind.MODULES,
    "constants.pkl": RecordKind.CONSTANTS,
    bytecode.NAME: RecordKind.BYTECODE,
    callstack_map.NAME: RecordKind.CALLSTACKS,
    methods.HANDLES: RecordKind.HANDLES,
    methods.PATHS: RecordKind.PATHS,
    source_ranges.DELEGATED: RecordKind.DELEGATED,
    "version": RecordKind.FORMAT,
    "byteorder": RecordKind.FORMAT,
}
FOLDERS = {
    "extra/": RecordKind.EXTRA,
    "data/": RecordKind.TENSOR,
    "tensors/": RecordKind.TENSOR,
    "constants/": RecordKind.TENSOR,
    "code/": RecordKind.CODE,
    "debug/": RecordKind.RANGES,
    ".data/": RecordKind.FORMAT,
}


def kind_of(name: str) -> RecordKind:
    """The kind of a record, by its name without root."""
    if name in EXACT:
        return EXACT[name]
    if name.endswith(source_ranges.SUFFIX):
        return RecordKind.RANGES
    for folder, kind in FOLDERS.items():
        if name.startswith(folder):
            return kind
    return RecordKind.OTHER
