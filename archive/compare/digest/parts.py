"""The parts of a model, each with its digest.

============================  ===============================================================================
part                          what it is of
============================  ===============================================================================
``code/NAME``                 a class or function of generated code, its variables numbered; of a package, a
                              file of Python
``bytecode/NAME``             a method of the lite interpreter; warnings are not numbered
``values/NAME``               a pickle: the module tree, constants, what ``torch.save`` wrote
``effects/NAME``              the side effects of a lowered model's methods, without places and debug handles
``graph/NAME``                an exported program without metadata and without the release that wrote it
``tensor/NAME``               a tensor by its name
``module/PATH``               the tensors of a module and of those below it, by their names there
``alias/NAME``                the names of tensors whose elements overlap when they are loaded, and how
``weights/NAME``              the weights in a shared object, which doesn't say which tensors they are
``record/NAME``               any other record that the loader may read, by its bytes: C++ code without
                              comments, a shared object without weights, paths of source files, stack traces
============================  ===============================================================================

Records have parts that are the model's: see :mod:`archive.compare.sameness`.

The digest of a module is of the tensors in it, by their names there. That of ``encoder`` is the sha256 of
lines like those of a list of parts, one for each tensor in it or below it, sorted by name:
``encoder.0.weight`` is ``0.weight`` there. So modules of equal tensors have equal digests, wherever they
are in a model. A state dict has the modules that its names have.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, in_file, shown
from archive.base.json_text import read_json
from archive.compare.digest.names import Definitions, escaped_name
from archive.compare.digest.values import TensorDigests, ValueBytes, sha256_of
from archive.compare.generated_code import canonical
from archive.compare.sameness import RELEASE_KEYS, Level, aliases, level_of, version_of_operators
from archive.compare.sourceless import COPIES, SOURCE_KINDS, sourceless, weights_in
from archive.compare.unkept import strip_unkept
from archive.formats.archive_id import counted_names, counted_pieces
from archive.formats.effects import EFFECTS
from archive.formats.exported.program import graph_of, nodes
from archive.formats.lowered import is_lowered, without_handles
from archive.formats.record_kinds import (
    BESIDE,
    BYTECODE,
    DATA,
    DATA_FOLDER,
    PACKAGED,
    PICKLED_KINDS,
    STORAGE,
    RecordKind,
    is_code,
    module_of,
)
from archive.formats.tensors.exported import TABLE, read_table
from archive.formats.tensors.pickled import storages_of
from archive.pickles.values import Global, Inert, walked
from archive.reader.archive import shared_value
from archive.reader.recognition import (
    PACKAGE_KINDS,
    PROGRAM_KINDS,
    SAVED_KINDS,
    is_packaged_pickle,
    kind_in,
    unpickled,
)
from archive.reader.records import INSIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from archive.container.record import Record
    from archive.reader.archive import Archive


# --- modules

MOST = 64
"""How many modules a tensor may be in, the outermost ones, that have digests."""
NO_MODULE = re.compile(r"(?:.*:)?CONSTANTS\.c\d+|bytecode:.*", re.DOTALL)
"""Tensors that are constants of code."""


def module_digests(tensors: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The digest of each module."""
    hashes: dict[str, hashlib._Hash] = {}
    for name in sorted(tensors):
        if NO_MODULE.fullmatch(name):
            continue
        for end in _ends(name):
            path = name[:end]
            if path not in hashes:
                memory.take(memory.ROW + end, "modules")
                hashes[path] = hashlib.sha256()
            line = f"{tensors[name].hex()}  {escaped_name(name[end + 1 :])}\n"
            hashes[path].update(line.encode())
    yield from ((path, digest.digest()) for path, digest in hashes.items())


def _ends(name: str) -> Iterator[int]:
    """Where the paths of the modules end that a tensor is in, the outermost first."""
    end = name.find(".", name.rfind(":") + 1)
    for _ in range(MOST):
        if end < 0:
            return
        yield end
        end = name.find(".", end + 1)


# --- parts

WARN = "WARN"
INSIDES = re.compile(re.escape(INSIDE))


def model_parts(archive: Archive) -> Mapping[str, str]:
    """The parts of a model, sorted, with their digests as hexadecimal digits."""
    with in_file(archive.file):
        found = dict(_ModelParts(archive).parts())
    return {escaped_name(name): found[name].hex() for name in sorted(found)}


class _ModelParts:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._kind = archive.recognised.kind
        self._records: Mapping[str, Record] = archive.container.records
        self._contents = TensorDigests(archive.tensors, archive.file, archive.size)
        self._objects = {
            name.rpartition("/")[0]
            for name in self._records
            if self._kind_of(name) is RecordKind.SHARED_OBJECT
        }
        self._done: set[str] = set(archive.tensors.storages)

    def parts(self) -> Iterator[tuple[str, bytes]]:
        if self._kind in SAVED_KINDS:
            yield from self._pickle(DATA, DATA_FOLDER, "")
        elif self._kind in PROGRAM_KINDS:
            yield from self._programs()
        else:
            yield from self._scripts()
        yield from self._tensors()
        yield from self._others()

    # TorchScript

    def _scripts(self) -> Iterator[tuple[str, bytes]]:
        code = {name: record for name, record in self._records.items() if is_code(name)}
        texts = {
            module_of(name): str(record.view(), "utf-8", "surrogateescape") for name, record in code.items()
        }
        pickles = [
            name for name in self._records if self._kind_of(name) in PICKLED_KINDS and name.endswith(".pkl")
        ]
        memory.take(10 * memory.NUMBER * sum(map(len, texts.values())), "names in code")
        values = {name: shared_value(self._archive, name) for name in sorted(pickles)}
        definitions = Definitions(texts)
        definitions.number(name for value in values.values() for name in _classes(value))
        self._done |= {*code, *pickles}
        roots = {definitions.named(str(value.what)) for value in values.values() if isinstance(value, Inert)}
        for name, lines in definitions.texts().items():
            plain = canonical(lines, keeps_arguments=not roots or name in roots)
            yield f"code/{name}", sha256_of(plain.encode("utf-8", "surrogateescape"))
        for name, value in values.items():
            if name == BYTECODE:
                yield from self._bytecode(value, definitions)
            else:
                lowered = any(map(is_lowered, _classes(value)))
                text = without_handles if lowered else str
                written = self._written(name, definitions, text)
                yield f"values/{name}", sha256_of(written.written(value))
        version = version_of_operators(self._archive)
        if version is not None:
            yield "record/version", sha256_of(version)
        yield from self._effects()
        if self._kind in PACKAGE_KINDS:
            for name, record in self._records.items():
                if name.startswith(PACKAGED) or name in self._done or not self._counts(name):
                    continue
                self._done.add(name)
                if is_packaged_pickle(record):
                    yield from self._pickle(name, PACKAGED, STORAGE)
                else:
                    yield f"{'code' if name.endswith('.py') else 'record'}/{name}", sha256_of(record.view())

    def _effects(self) -> Iterator[tuple[str, bytes]]:
        table = self._archive.effects if self._kind_of(EFFECTS) is RecordKind.EFFECTS else None
        if table is None:
            return
        from archive.formats.effects.parts import without_places  # noqa: PLC0415 (few archives have some)
        from archive.formats.effects.record import build_effects  # noqa: PLC0415 (the same)

        self._done.add(EFFECTS)
        memory.take(COPIES * self._records[EFFECTS].size, "effects")
        yield f"effects/{EFFECTS}", sha256_of(build_effects(without_places(table)))

    def _written(self, name: str, definitions: Definitions, text: Callable[[str], str] = str) -> ValueBytes:
        place = partial(self._archive.tensors.place, name)
        folder = storages_of(name)
        return ValueBytes(self._contents, place, text, definitions.named, folder=folder)

    def _bytecode(self, value: object, definitions: Definitions) -> Iterator[tuple[str, bytes]]:
        items = value if isinstance(value, tuple) else (value,)
        for number, item in enumerate(items):
            match item:
                case (str(name), tuple(table), *schema):
                    written = self._written(BYTECODE, definitions, definitions.named)
                    plain = self._written(BYTECODE, definitions)
                    data = []
                    for row in table:
                        is_constants = isinstance(row, tuple) and row[:1] == ("constants",)
                        data.append((plain if is_constants else written).written(_unnumbered(row)))
                    data.append(written.written(schema))
                    sizes = b"".join(len(row).to_bytes(8, "big") for row in data)
                    yield f"bytecode/{definitions.named(name)}", sha256_of(sizes + b"".join(data))
                case _:
                    written = self._written(BYTECODE, definitions)
                    yield f"bytecode/{number}", sha256_of(written.written(item))

    # torch.save and torch.package

    def _pickle(self, name: str, before: str, after: str) -> Iterator[tuple[str, bytes]]:
        """The value of what Python pickled, whose storages have names around their keys."""
        self._done.add(name)
        with memory.part(), in_file(self._archive.file, name):
            value = unpickled(self._archive.container, name)
            written = ValueBytes(self._contents, lambda key: f"{before}{key}{after}", script=False)
            yield f"values/{name}", sha256_of(written.written(value))

    # Exported programs

    def _programs(self) -> Iterator[tuple[str, bytes]]:
        for name, record in self._archive.programs.records.items():
            self._done.add(record)
            with memory.part(), in_file(self._archive.file, record):
                tree = read_json(self._records[record].view())
                for _, node, *_ in nodes(graph_of(tree)):
                    node["metadata"] = {}
                strip_unkept(tree)
                yield (
                    f"graph/{name}",
                    _json({key: value for key, value in tree.items() if key not in RELEASE_KEYS}),
                )
        for name in filter(TABLE.fullmatch, self._records):
            self._done.add(name)
            # what the table says of tensors besides them, and the objects that it names
            with memory.part(), in_file(self._archive.file, name):
                facts = {}
                for tensor, payload in read_table(self._records[name].view())["config"].items():
                    layout = (payload.get("tensor_meta") or {}).get("layout")
                    facts[tensor] = [payload.get("is_param"), payload.get("use_pickle"), layout]
                    if payload.get("use_pickle"):
                        record = f"{name.rpartition('/')[0]}/{payload['path_name']}"
                        self._done.add(record)
                        yield f"record/{name}:{tensor}", sha256_of(self._named(record, tensor).view())
                yield f"values/{name}", _json(facts)

    def _named(self, record: str, tensor: str) -> Record:
        """The record that a table names."""
        if record not in self._records:
            raise ArchiveError(place=f"config.{tensor}", expected=f"a record {shown(record)}", found="none")
        return self._records[record]

    # All

    def _tensors(self) -> Iterator[tuple[str, bytes]]:
        tensors = self._archive.tensors
        digests = {
            name: self._contents.of(tensor)
            for name, tensor in tensors.items()
            if not self._is_loaded_by_object(tensor.record)
        }
        yield from ((f"tensor/{name}", digest) for name, digest in digests.items())
        for path, digest in module_digests(digests):
            yield f"module/{path}", digest
        for group in aliases({name: tensors[name] for name in digests}):
            rows = repr(list(map(tuple, group)))
            yield f"alias/{group[0].name}", sha256_of(rows.encode("utf-8", "surrogateescape"))

    def _is_loaded_by_object(self, storage: str) -> bool:
        """Whether a tensor is a shared object's: only code that the model runs without has its name."""
        return storage.rpartition("/")[0] in self._objects

    def _others(self) -> Iterator[tuple[str, bytes]]:
        """Records that are not read in any other way."""
        exported = self._kind in PROGRAM_KINDS
        looked_into = {done[: at.start()] for done in self._done for at in INSIDES.finditer(done)}
        for name in counted_names(self._records):
            kind = self._kind_of(name)
            if not self._counts(name) or name in self._done or name in looked_into:
                continue
            if name.endswith(BESIDE) and exported and not name.startswith(DATA_FOLDER):
                continue
            record = self._records[name]
            if kind in SOURCE_KINDS:
                memory.take(COPIES * record.size, "a compiled model")
                yield f"record/{name}", sha256_of(sourceless(record.view(), kind))
                weights = weights_in(record.view(), kind)
                if weights:
                    yield f"weights/{name}", self._contents.of_bytes(weights)
                continue
            _, pieces = counted_pieces(record, exported=exported)
            digest = hashlib.sha256()
            for piece in pieces:
                digest.update(piece)
            yield f"record/{name}", digest.digest()

    def _counts(self, name: str) -> bool:
        """Whether a record is the model's."""
        return level_of(self._archive, name) is Level.MODEL

    def _kind_of(self, name: str) -> RecordKind:
        return kind_in(self._kind, name)


def _classes(root: object) -> Iterator[str]:
    """The names of classes in a value, in order."""
    return (str(value) for value in walked(root) if isinstance(value, Global))


def _unnumbered(row: object) -> object:
    """A row of a method's table, its warnings without the numbers that a process gave them."""
    match row:
        case ("instructions", tuple(instructions)):
            return "instructions", tuple(
                (WARN, 0, *instruction[2:])
                if isinstance(instruction, tuple) and instruction[:1] == (WARN,)
                else instruction
                for instruction in instructions
            )
    return row


def _json(value: object) -> bytes:
    return sha256_of(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
