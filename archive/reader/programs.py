"""The exported programs of an archive, each parsed when it is first asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError, in_file
from archive.formats.record_kinds import programs_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from enum import StrEnum

    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite
    from archive.formats.record_kinds import MetadataKind
    from archive.normalform.metadata import Metadata
    from archive.reader.companion import Companion
    from archive.reader.records import Records


@memory.kept
class Programs(Mapping[str, "Program"]):
    """The exported programs by name; ``torch.export.save`` calls the only one ``model``.

    Those of an ETRecord have the names of their records: ``edge_dialect_exported_program/forward``.

    Looking one up raises :class:`~archive.ArchiveError`, with the JSON path, if its record isn't a program.

    Args:
        companion: where the metadata of nodes is read from; None where the records have it. A companion alone
            has names and targets, but not the arguments of nodes.
    """

    def __init__(self, source: Records, companion: Companion | None = None) -> None:
        self._source = source
        self.allowance = source.allowance
        self.records = programs_in(source.records, source.root)
        self._metadata = None if companion is None else companion.metadata
        self._parsed: dict[str, Program] = {}
        self._trees: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Program:
        if name not in self._parsed:
            self._parsed[name] = self._program(name)
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        if self.records or self._metadata is None:
            return iter(self.records)
        return iter(self._metadata.programs)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def may_call(self, target: str) -> bool:
        """Whether a node may call a target; no program is parsed for that."""
        if self.records:
            name = re.compile(re.escape(target).encode())
            return any(name.search(self._source.records[each].view()) for each in self.records.values())
        return self._metadata is not None and self._metadata.has_target(target)

    @cached_property
    def left(self) -> dict[str, bytes]:
        """The records of programs without metadata, if ``json.dumps`` wrote them."""
        if not self.records:
            return {}
        from archive.formats.exported.program import without_metadata  # noqa: PLC0415 (few have programs)

        left = {}
        for record in self.records.values():
            try:
                data = without_metadata(self._tree(record), self._source.records[record].view())
            except LimitError:
                raise
            except ArchiveError:  # `verify` reports it
                continue
            if data is not None:
                left[record] = data
        return left

    def left_with(self, kinds: Collection[StrEnum]) -> Mapping[str, bytes]:
        """The same with some kinds of metadata, as far as nodes have them; any other kinds are ignored."""
        if not kinds:
            return self.left
        from archive.formats.exported.program import with_metadata  # noqa: PLC0415 (few have programs)

        sites = {record: self[name].sites.values() for name, record in self.records.items()}
        return {
            record: with_metadata(self._tree(record), [site.metadata_of(kinds) for site in sites[record]])
            for record in self.left
        }

    @property
    def whole(self) -> tuple[str, ...]:
        """The records of the other programs: their bytes cannot be rebuilt from their values."""
        return tuple(record for record in self.records.values() if record not in self.left)

    @cached_property
    def kinds(self) -> set[MetadataKind]:
        """The kinds of metadata that nodes have, in programs that ``json.dumps`` wrote."""
        from archive.formats.exported.node_metadata import metadata_kind  # noqa: PLC0415 (few archives have programs)

        programs = (self[name] for name, record in self.records.items() if record in self.left)
        sites = (site for program in programs for site in program.sites.values())
        return set(map(metadata_kind, {key for site in sites for key in site.metadata}))

    def _tree(self, record: str) -> Any:  # noqa: ANN401 (any value)
        from archive.base.json_text import read_json  # noqa: PLC0415 (few archives have programs)

        if record not in self._trees:
            self._trees[record] = read_json(self._source.records[record].view())
        return self._trees[record]

    def _program(self, name: str) -> Program:
        from archive.formats.exported.program import Program  # noqa: PLC0415 (few archives have programs)

        metadata = self._metadata
        rows = metadata.programs.get(name) if metadata else None
        if not self.records and metadata and rows is not None:
            return Program(name, "", partial(_sites, metadata, rows))
        record = self.records[name]
        with in_file(self._source.file, record):
            texts = [metadata.of(row) for row in rows] if metadata and rows is not None else None
            program = Program.of(name, self._tree(record), texts)
        sites = partial(self._sites, program, record)
        return Program(
            name,
            program.release,
            sites,
            program.lifted,
            is_pruned=program.is_pruned,
            schema=program.schema,
            inputs=program.inputs,
            weights=program.weights,
            outputs=program.outputs,
        )

    def _sites(self, program: Program, record: str) -> Mapping[str, NodeSite]:
        """The sites of a program, whose errors name the file and the record."""
        with in_file(self._source.file, record):
            return program.sites


def _sites(metadata: Metadata, rows: range) -> dict[str, NodeSite]:
    """The sites of a program, as far as a companion alone knows them."""
    from archive.formats.exported.sites import NodeSite, Scope  # noqa: PLC0415 (few archives have programs)

    sites = {}
    for row in rows:
        scopes = [Scope(metadata.name(holder), name) for holder, name in metadata.scopes(row)]
        path = tuple(reversed(scopes))
        site = NodeSite(metadata.name(row), metadata.target(row), path, None, metadata.of(row))
        sites[site.key] = site
    return sites
