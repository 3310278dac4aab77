"""The records of a migrated archive: rewritten for the target, and put into its order.

Debug records are made of the columns of the normal form: see :mod:`~archive.rewrite.migrate.ranges` and
:mod:`~archive.rewrite.migrate.stacks`. Each step is noted in the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from archive.base import memory
from archive.base.errors import ImpossibleError, shown
from archive.container.serialization_id import RECORD_NAME, renewed_id, serialization_id
from archive.container.write import member_from, new_member
from archive.debuginfo.mending import completed, mended
from archive.debuginfo.model import RangeLayout
from archive.formats import bytecode
from archive.formats.record_kinds import (
    BYTECODE,
    BYTEORDER,
    CALLSTACK_MAP,
    DATA,
    DELEGATED,
    EMBEDDED,
    LITTLE_ENDIAN,
    METHOD_HANDLES,
    MIGRATED,
    MODULE_PATHS,
    VERSION_RECORDS,
    code_of,
    holds_ranges,
    kind_of,
    version_record,
)
from archive.formats.releases import LOADED_BYTECODE, release
from archive.formats.stale_methods import may_be_stale, stale_methods, without
from archive.io.mapped import same_bytes
from archive.normalform.builder import FormBuilder
from archive.normalform.records import DebugRecords
from archive.reader.recognition import FileKind
from archive.rewrite.migrate import ranges
from archive.rewrite.migrate.aside import is_format, kept_aside
from archive.rewrite.migrate.plan import MigrationPlan, PlanStep
from archive.rewrite.migrate.stacks import MAP, KnownCode, carry_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.container.record import Record
    from archive.container.write import Member
    from archive.formats.releases import Release
    from archive.formats.stale_methods import Cut
    from archive.reader.archive import Archive
    from archive.reader.provenance import Provenance
    from archive.rewrite.migrate.plan import Target

NAMELESS = 'source ranges of no file {1} a line `File "", line …` in what PyTorch prints, rows: {0:,}'
STALE_FROM = (1, 9)
"""The first release that refuses lowered code with a stale method."""
PACKAGED = (1, 9)
"""The first release that puts TorchScript into a torch.package."""
HIDDEN_FROM = 6
"""The first archive version that is kept in ``.data/version``; earlier ones are in ``version``."""
HIDDEN_SINCE = (1, 9)
"""The first release that writes ``.data/version``."""
BEHIND_BYTECODE = (
    MODULE_PATHS,
    METHOD_HANDLES,
    DELEGATED,
    CALLSTACK_MAP,
)


class MigratedRecords:
    """The records of an archive, rewritten for a target.

    Attributes:
        plan: the steps.
        release: the target's release; None for other targets.
        records: the new debug records and rescued code, by name; other debug records are dropped.
        formats: the new records that say how to read the archive, by name.
        cuts: for each rescued code record, the bytes that are taken out.

    Raises:
        ImpossibleError: archive or target are of PyTorch 1.0 to 1.2.
    """

    def __init__(self, archive: Archive, target: Target, origin: Provenance) -> None:
        self.archive = archive
        self.target = target
        self.plan = MigrationPlan(target)
        self.release = None if target.number is None else release(target.number)
        self._code: dict[str, bytes] = {}
        self.cuts: dict[str, list[Cut]] = {}
        self.records: Mapping[str, bytes] = {}
        self.formats: dict[str, bytes] = {}
        handles, self._mended = mended(archive.handle_table, archive.range_table)
        self._handles, self._added = completed(handles, archive.range_table, handles_in_blobs(archive))
        keeps_another = MIGRATED in archive.records  # and is not asked for what it was
        if not target.is_original and (
            target.number is None
            or keeps_another
            or self._mended
            or self._added
            or not origin.includes(target.number)
        ):
            self._refuse(origin)
            with memory.part():
                self._rewrite()
            size = sum(map(len, self.records.values()))
            memory.take(size, "bytes of records")
        self._remark()

    def refuse_losses(self, *, lossy: bool) -> None:
        """Refuse losses without consent.

        Args:
            lossy: whether the user consents.

        Raises:
            ImpossibleError: something would be lost, and ``lossy`` is not given.
        """
        if self.plan.losses and not lossy:
            losses = ", ".join(map(str, self.plan.losses))
            message = f"{self.target} has no place for {losses}; pass --lossy to go on without"
            raise ImpossibleError(message, file=self.archive.file, in_python="lossy=True")

    def aside(self) -> tuple[bytes, bool]:
        """The record that keeps the original, and whether it gives the whole file again."""
        return kept_aside(self.archive, self._code)

    def _refuse(self, origin: Provenance) -> None:
        is_package = self.archive.recognised.kind is FileKind.PACKAGE
        if release(origin.last).legacy:
            problem = "it is of PyTorch 1.0 to 1.2: its module tree is model.json, which nothing later reads"
        elif self.release is not None and self.release.legacy:
            problem = f"{self.target} reads only model.json, which later archives don't have"
        elif self.release is not None and self.release.last < PACKAGED and is_package:
            problem = f"{self.target} knows no TorchScript in a torch.package; 1.9 is the first that does"
        else:
            return
        raise ImpossibleError(f"cannot be migrated: {problem}", file=self.archive.file)

    def _rewrite(self) -> None:
        """Make the records; ``allowance`` is for what they are made of."""
        archive = self.archive
        form = FormBuilder.of(archive.range_table, self._handles, archive.method_table, archive.path_table)
        if self.release is not None:
            self._rescue(form)
        self._lay_ranges(form)
        if self.release is not None:
            carry_over(form, self._known_code(), self.plan, self.release)
        if "handle.handle" in form.columns:
            for what, count in (
                ("tags of no source range in the call-stack map", self._mended),
                ("handles of lowered modules put into the call-stack map, of no source", self._added),
            ):
                self.plan.rescues += [PlanStep(what, count)] if count else []
        made, records = DebugRecords(form.form()), {}
        for name in made:
            records[name] = made[name]
            memory.take(len(records[name]), "bytes of a record", record=name)
        self.records = {**records, **self._code}
        self.formats = format_records(archive.container.records, self.release)
        self._plan_records()

    def _rescue(self, form: FormBuilder) -> None:
        """Take stale methods out of lowered code."""
        if self.target.number is None or self.target.number < STALE_FROM:
            return
        numbers = {code_of(name): number for name, number in self.archive.range_table.numbers.items()}
        for name in filter(may_be_stale, self.archive.records):
            data = bytes(self.archive.records[name].view())
            cuts = stale_methods(data)
            if not cuts:
                continue
            self._code[name] = without(data, cuts)
            self.cuts[name] = cuts
            if name in numbers:
                for begin, end in reversed(cuts):
                    form.columns = ranges.cut_out(form.columns, numbers[name], begin, end)
            size = len(data) - len(self._code[name])
            self.plan.rescues.append(PlanStep(f"stale method __preprocess out of {name}, bytes", size))

    def _lay_ranges(self, form: FormBuilder) -> None:
        """Bring source ranges into the target's layout."""
        # Releases that write no source ranges, 1.0 and 1.1, were refused.
        wanted = cast("RangeLayout", self.target.layout if self.release is None else self.release.ranges)
        table = self.archive.range_table
        for layout in dict.fromkeys(table.layouts):
            chosen = [number for number, other in enumerate(table.layouts) if other is layout]
            rows = int(np.diff(table.first)[chosen].sum())
            if layout is not wanted and (rows or wanted is RangeLayout.STRING_TABLE):
                what = f"source ranges, {layout} to {wanted}, rows"
                self.plan.changes.append(PlanStep(what, rows))
        handles = self.archive.handle_table
        if wanted is RangeLayout.PAIR and self.release is None and handles is not None and len(handles):
            self.plan.losses.append(PlanStep("source ranges and call stacks of debug handles", len(handles)))
            form.drop(*MAP)
        gained, lost = ranges.renamed(table, wanted)
        for rows, change in ((gained, "gain"), (lost, "lose")):
            if rows:
                self.plan.remarks.append(NAMELESS.format(rows, change))
        form.columns = ranges.relaid(form.columns, wanted)

    def _known_code(self) -> KnownCode | None:
        """The bytecode, as far as call stacks need it; None where there is none."""
        archive = self.archive
        if archive.bytecode is None:
            return None
        operators = bytecode.parse_operators(archive.tree([BYTECODE]), 0)
        return KnownCode(operators, archive.bytecode.version, archive.top, archive.classes)

    def _plan_records(self) -> None:
        """Plan the records that come, go, or change places."""
        records = self.archive.records
        old = [name for name in records if kind_of(name).is_debug or is_format(name)]
        new = dict.fromkeys([*self.records, *self.formats])
        for what, names in (
            ("out", [name for name in old if name not in new]),
            ("in", [name for name in new if name not in records]),
        ):
            self.plan.changes += [PlanStep(f"record {name} {what}") for name in names]
        self.plan.losses += [PlanStep(f"the facts of {name}") for name in records if is_only_carried(name)]
        if self.release is not None and self.formats:
            first = is_format(next(iter(records)))
            if first != self.release.version_first:
                self.plan.changes.append(PlanStep("order of records"))

    def _remark(self) -> None:
        """Remark on blobs that cannot be read, and on bytecode that the target refuses all the same."""
        self.plan.remarks += unread_blobs(self.archive)
        version = None if self.archive.bytecode is None else self.archive.bytecode.version
        if self.release is None or version is None:
            return
        own = self.release.bytecode
        if self.target.is_latest:
            is_read = version in LOADED_BYTECODE
            reads = f"reads {LOADED_BYTECODE[0]} to {LOADED_BYTECODE[-1]}"
        elif own is None:
            is_read = False
            reads = "may have none that reads it"
        else:
            is_read = version <= own
            reads = f"may read up to {own}, which that release writes"
        if not is_read:
            self.plan.remarks.append(
                f"its bytecode has version {version}, and the lite interpreter of {self.target} {reads}; "
                "TorchScript is not concerned"
            )


def is_only_carried(name: str) -> bool:
    """Whether a record is debug information that no migration knows how to rewrite."""
    is_rewritten = holds_ranges(name) or name in (*BEHIND_BYTECODE, EMBEDDED, MIGRATED)
    return kind_of(name).is_debug and not is_rewritten


def handles_in_blobs(archive: Archive) -> list[int]:
    """The debug handles that lowered modules name; none where no call-stack map could have them."""
    if archive.handle_table is None or DATA not in archive.records:
        return []
    return [handle for state in archive.lowered.values() for handle in state.handles]


def unread_blobs(archive: Archive) -> list[str]:
    """Remarks on lowered modules that may name debug handles which the call-stack map lacks."""
    if archive.handle_table is None or DATA not in archive.records:
        return []
    return [
        f"{state.unread} in lowered module {shown(path)}: handles that it names are not added to the map"
        for path, state in archive.lowered.items()
        if state.unread
    ]


def format_records(records: Mapping[str, Record], release: Release | None) -> dict[str, bytes]:
    """The records that say how to read an archive, by name: as a release writes them, or unchanged."""
    if release is None:
        return {name: bytes(record.view()) for name, record in records.items() if is_format(name)}
    formats = {}
    version = version_record(records)
    for name, record in records.items():
        if is_format(name) and name not in (*VERSION_RECORDS, BYTEORDER):
            formats[name] = bytes(record.view())
    if version is not None:
        data = bytes(records[version].view())
        digits = data.strip()
        hidden = digits.isdigit() and len(digits) < 10 and int(digits) >= HIDDEN_FROM  # noqa: PLR2004
        formats[VERSION_RECORDS[0 if hidden and release.first >= HIDDEN_SINCE else 1]] = data
    if release.byteorder:
        formats[BYTEORDER] = bytes(records[BYTEORDER].view()) if BYTEORDER in records else LITTLE_ENDIAN
    return formats


def ordered(
    records: Mapping[str, Record],
    rewritten: Mapping[str, bytes],
    formats: Mapping[str, bytes],
    release: Release | None,
    aside: bytes | None,
) -> list[Member]:
    """All records in a release's order.

    Args:
        records: those of the original.
        rewritten: new debug records and code, by name; debug records that are not among them are dropped.
        formats: from :func:`format_records`.
        release: the release; None keeps the order of the original.
        aside: the record that keeps the original; None for none.
    """
    names = [
        name
        for name in records
        if not is_format(name)
        and name not in (RECORD_NAME, MIGRATED)
        and (name in rewritten or not kind_of(name).is_debug)
    ]
    new = [name for name in (*BEHIND_BYTECODE, *rewritten) if name in rewritten and name not in names]
    at = names.index(BYTECODE) + 1 if BYTECODE in names else len(names)
    names[at:at] = list(dict.fromkeys(new))
    members = [_member(name, records, rewritten) for name in names]
    if aside is not None:
        members.insert(0, new_member(MIGRATED, aside, compress=False))
    stated = [_member(name, records, formats) for name in formats]
    first = next(iter(records), "") in formats if release is None else release.version_first
    members = stated + members if first else members + stated
    if RECORD_NAME in records if release is None else release.byteorder:
        # By the rules of the original's writer; where it had no id, as PyTorch on Linux.
        if RECORD_NAME in records:
            data = renewed_id(members, records.values(), records[RECORD_NAME].view())
        else:
            data = serialization_id(members).encode()
        members.append(new_member(RECORD_NAME, data))
    return members


def _member(name: str, records: Mapping[str, Record], rewritten: Mapping[str, bytes]) -> Member:
    """A record of the result: the original's, compressed as it was, unless its bytes change."""
    if name not in rewritten:
        return member_from(records[name])
    if name in records and same_bytes(records[name].view(), rewritten[name]):
        return member_from(records[name])
    return new_member(name, rewritten[name])
