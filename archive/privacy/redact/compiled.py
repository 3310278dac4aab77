"""Compiled models: kernels' stack traces, C++ code, commands and shared objects.

===========================  ================================================================================
file                         what becomes of it
===========================  ================================================================================
``kernel_information.json``  its stack traces are rewritten like those of nodes
C++ code beside an object    goes with all source text; else its paths are rewritten
C++ code to be compiled      its comments and stack traces are rewritten
shared objects               what the loader never maps goes, DWARF and symbols; paths and lines of code in
                             read-only data are overwritten in place, unless C++ code has the path as a value
other machine code           stays; the result names paths in it
all others                   PyTorch needs them, such as compilers' flags: only maps change paths in them
===========================  ================================================================================

Whatever stays, the proof finds.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.json_text import read_json
from archive.container.names import as_bytes, as_text
from archive.debuginfo.sites import NO_FILE, last_part
from archive.formats.compiled.code import UNREAD, without_comments
from archive.formats.elf.parse import is_elf, parse_object
from archive.formats.elf.source_texts import source_texts
from archive.formats.record_kinds import KERNELS, SpareKind
from archive.privacy.redact.programs import changed_strings, strings_in
from archive.privacy.redact.texts import (
    PATH,
    files_in,
    hidden,
    paths_cost,
    paths_in,
    redacted_trace,
    renamed_in,
    without_code,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.elf.source_texts import ObjectText
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import Rules
    from archive.reader.archive import Archive
    from archive.reader.compiled import CompiledModel

STRING = re.compile(rb"(?<=\0)(?:/|[A-Za-z]:[/\\])[^\x00-\x1f\x7f]{4,4096}+(?=\0)")
"""What may be a path in a shared object, DWARF or not."""
INCLUDE = re.compile(rb"(?m)^#include .*$")
TENSORS = (".bin", ".pt")
"""Files of weights."""
COPIES = 4
"""Copies of a record in memory: itself, changed, as one text and another."""
STACK_TRACES = "stack_traces"


def redacted_compiled(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes | None]:
    """The records of compiled models, rewritten, by name; None where one goes."""
    made: dict[str, bytes | None] = {}
    if rules.paths == rules.source == "keep" and not rules.maps:
        return made
    for model in opened.compiled.values():
        made |= _Compiled(model, opened, rules, removed).records()
    return made


class _Compiled:
    """A compiled model that is rewritten."""

    def __init__(self, model: CompiledModel, opened: Archive, rules: Rules, removed: Removed) -> None:
        self._model, self._opened, self._rules, self._removed = model, opened, rules, removed
        self._bare = rules.source == "none"
        self._objects = set(model.objects)
        others = (file for file in model.records if not file.endswith(TENSORS) and file not in self._objects)
        self._machine_code = {file for file in others if b"\0" in bytes(model.view(file))}
        for file in model.records:
            record = model.records[file]
            memory.take(COPIES * model.size(file), "a compiled model", record=record)
            memory.take(paths_cost(model.view(file)), "paths", record=record)

    def records(self) -> dict[str, bytes | None]:
        """The records by name."""
        self._removed.renamed(self._names)
        spare = self._opened.spare.records
        made: dict[str, bytes | None] = {}
        for file, record in self._model.records.items():
            if file == KERNELS:
                tree: Any = read_json(self._model.view(KERNELS))
                for value in tree.values():
                    texts = [
                        redacted_trace(text, self._rules, self._names, self._removed)
                        for text in value[STACK_TRACES]
                    ]
                    value[STACK_TRACES] = [text for text in texts if text is not None]
                made[record] = json.dumps(tree, indent=4).encode()
            elif spare.get(record) is SpareKind.SOURCES:
                made[record] = None if self._bare else renamed_in(self._data(file), self._names)
            elif file in self._model.sources:
                code = self._data(file)
                if self._bare:
                    code = without_code(code, self._gone)
                made[record] = UNREAD.sub(lambda match: renamed_in(match[0], self._names), code)
            elif file in self._objects:
                made[record] = self._object(file)
            elif file in self._machine_code:  # stays as it is
                if any(self._names[path] != path for path in self._paths(file)):
                    self._removed.stays.append(f"{record}: paths in machine code")
            elif not file.endswith(TENSORS):
                made[record] = self._needed(file)
        return made

    def _data(self, file: str) -> bytes:
        return bytes(self._model.view(file))

    @cached_property
    def _names(self) -> dict[bytes, bytes]:
        """What each path becomes. The package's own files keep their names: their records have them."""
        own = set(map(as_bytes, self._model.records))
        names = self._rules.renamed(path for file in self._model.records for path in self._paths(file))
        for path, new in names.items():
            name = last_part(path)
            if new == NO_FILE and name in own:
                names[path] = name
        return names

    @cached_property
    def _mapped(self) -> dict[bytes, bytes]:
        """What only maps make of each path."""
        return replace(self._rules, paths="keep").renamed(self._names)

    @cached_property
    def _literals(self) -> bytes:
        """The C++ code without comments: a path in it is a value, and stays in a shared object."""
        code = (without_comments(self._data(file)) for file in self._model.sources)
        return b"".join(INCLUDE.sub(b"", source) for source in code)

    def _paths(self, file: str) -> Iterator[bytes]:
        """The paths in one of the model's files."""
        if file == KERNELS:
            for kernel in self._model.kernels.values():
                for trace in kernel.stack_traces:
                    yield from files_in(trace)
        elif file in self._objects:
            view = self._model.view(file)
            yield from (bytes(view[text.start : text.end]) for text in self._texts(file) if text.is_path)
            yield from _strings_in(view)
        elif file in self._machine_code:
            yield from _strings_in(self._model.view(file))
        elif not file.endswith(TENSORS):
            data = self._data(file)
            texts = map(as_bytes, strings_in(as_text(data))) if file.endswith(".json") else [data]
            yield from (path for text in texts for path in paths_in(text))

    def _texts(self, file: str) -> list[ObjectText]:
        """The texts about source in the read-only data of a shared object."""
        data = self._model.view(file)
        try:
            return source_texts(data, parse_object(data)) if is_elf(data) else []
        except LimitError:
            raise
        except ArchiveError:  # `verify` reports it; it stays as it is
            return []

    def _needed(self, file: str) -> bytes:
        """A file that says how the model is compiled, or what for."""
        if any(self._names[path] != self._mapped[path] for path in self._paths(file)):
            why = "paths that PyTorch compiles the model with; a map (--map) may change them"
            self._removed.stays.append(f"{self._model.records[file]}: {why}")
        data = self._data(file)
        if not file.endswith(".json"):
            return renamed_in(data, self._mapped)
        return as_bytes(
            changed_strings(as_text(data), lambda text: as_text(renamed_in(as_bytes(text), self._mapped)))
        )

    def _object(self, file: str) -> bytes:
        """A shared object, as far as the loader maps it."""
        data = self._model.view(file)
        record = self._model.records[file]
        parts = self._opened.spare.cuts.get(record)
        if why := self._opened.spare.whole.get(record):
            self._removed.stays.append(f"{record}: what no loader maps, if any: {why}")
        changed = bytearray(data if parts is None else parts.left)
        for start, end, is_path in self._texts(file):
            text = bytes(data[start:end])
            if is_path and text not in self._literals:
                changed[start:end] = in_place(text, self._names[text])
            elif self._bare and not is_path:
                for line in text.split(b"\n"):
                    self._gone(line)
                changed[start:end] = hidden(text)
        return bytes(changed)

    def _gone(self, line: bytes) -> None:
        self._removed.line(line, kept=False)


def _strings_in(data: memoryview) -> Iterator[bytes]:
    """The strings of machine code that are paths."""
    return (text for text in set(STRING.findall(data)) if PATH.fullmatch(text))


def in_place(path: bytes, new: bytes) -> bytes:
    """A path, or only the file's name, in as many bytes as another path takes."""
    if new == path:
        return path
    name = new if len(new) <= len(path) else last_part(new)
    name = name if len(name) <= len(path) else NO_FILE
    lead = len(path) - len(name)
    return b"." * min(lead, 1) + b"/" * (lead - 1) + name
