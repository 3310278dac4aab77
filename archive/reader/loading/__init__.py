"""The checks that PyTorch 2.13 makes when it loads an archive, in its order and with its messages.

:mod:`archive.check.verify` reports the ``CHECKS`` that fail, and each command makes them before it says that
PyTorch loads a file it wrote. Each check was tried with PyTorch 2.13;
``fixtures/releases/oracle-2.13.0.json`` has its answer for each archive. A check finds one of two things:

- a *contradiction* between records: every release that reads these records rejects the archive;
- a format of *another release* that 2.13 does not read: the archive itself is fine, and a migration repairs
  what can be repaired.

Not listed:

- a torch.package, which has an importer of its own;
- the storages of tensors, which only :mod:`archive.check.storages` looks for;
- the compilation of generated code: only its characters are checked here;
- the creation of objects, which needs the model's operators, custom classes and backends.

``checks`` has what each check looks for, ``programs`` the checks of exported programs and compiled models.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.diagnostics import Diagnostic
from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.mending import tags_of
from archive.formats.record_kinds import CONSTANTS, DATA
from archive.formats.releases import LOADED_BYTECODE
from archive.reader.loading import checks
from archive.reader.loading.checks import Fault, ParsedRecords
from archive.reader.recognition import ARCHIVE_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.reader.archive import Archive

__all__ = [
    "CHECKS",
    "Check",
    "Fault",
    "Loader",
    "ParsedRecords",
    "Refusal",
    "has_checks",
    "refusals",
    "refusals_as_before",
]

MISSING_FILE = "PytorchStreamReader failed locating file {}: file not found"
TAG_MESSAGE = "Source range tag must exist in deserialized source range map."


class Loader(StrEnum):
    """A part of PyTorch that loads archives."""

    TORCHSCRIPT = "PyTorch 2.13's torch.jit.load"
    LITE = "PyTorch 2.13's lite interpreter"
    BOTH = "PyTorch 2.13"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that PyTorch checks.

    Attributes:
        loader: the part of PyTorch that checks it.
        message: PyTorch's message, without the values in it.
        find: finds the places where an archive fails the check.
        of_release: whether archives fail it because another release wrote them.
        mended: whether a migration to the latest release mends an archive that fails it.
    """

    loader: Loader
    message: str
    find: Callable[[ParsedRecords], Iterator[Fault]]
    of_release: bool = False
    mended: Callable[[ParsedRecords], bool] = lambda _: False

    def faults(self, facts: ParsedRecords) -> Iterator[Fault]:
        """The places where an archive fails the check; none where it passes."""
        for fault in self.find(facts):
            if len(fault.numbers):
                yield fault

    def refusal(self, facts: ParsedRecords) -> str:
        """PyTorch's refusal of an archive that fails the check, and how to mend it where that is possible."""
        way_out = "; `debug-archive migrate --to latest` mends it" if self.mended(facts) else ""
        return f'{self.loader} refuses it: "{self.message}"{way_out}'


class Refusal(NamedTuple):
    """A check that an archive fails.

    Attributes:
        text: PyTorch's refusal, and how to mend it where that is possible.
        first: the first place that fails it.
    """

    check: Check
    text: str
    first: Diagnostic


def has_checks(kind: FileKind) -> bool:
    """Whether files of a kind have ``CHECKS``; a torch.package, which has its own importer, has none."""
    return kind in ARCHIVE_KINDS and kind is not FileKind.PACKAGE


def refusals(archive: Archive, like: Archive | None = None) -> list[Refusal]:
    """The checks that an archive fails; none for a file of a kind that has no checks (:func:`has_checks`).

    Args:
        like: another archive with the same bytecode, whose parsed bytecode is used.
    """
    if not has_checks(archive.recognised.kind):
        return []
    bytecode = (archive if like is None else like).bytecode
    tags = tags_of(archive.range_table)
    facts = ParsedRecords(
        archive, archive.records, tags, archive.handle_table, archive.method_table, bytecode
    )
    failed = []
    for check in CHECKS:
        fault = next(check.faults(facts), None)
        if fault is not None:
            place, problem = fault.describe(int(fault.numbers[0]))
            first = Diagnostic("error", fault.record, place, problem)
            failed.append(Refusal(check, check.refusal(facts), first))
    return failed


def refusals_as_before(after: Archive, before: Archive, *, same_bytecode: bool = True) -> list[Refusal]:
    """The checks that an archive fails; any contradiction among them was already in its source.

    Args:
        same_bytecode: whether both have the same bytecode, which is then parsed once.
    """
    failed = refusals(after, before if same_bytecode else None)
    contradictions = [refusal for refusal in failed if not refusal.check.of_release]
    known = {_about(refusal.check) for refusal in refusals(before)} if contradictions else set()
    for refusal in contradictions:
        if _about(refusal.check) not in known:
            first = refusal.first
            what = f"{first.message}: {refusal.text}; nothing is written"
            raise ArchiveError(what, record=first.record or None, place=first.place or None)
    return failed


def _about(check: Check) -> str:
    """The subject of a check: tags of rows and of calls are one subject, since both fail without tags."""
    return TAG_MESSAGE if check.message.startswith(TAG_MESSAGE) else check.message


CHECKS = (
    Check(
        Loader.BOTH,
        "Attempted to read a PyTorch file with version",
        checks.version,
        of_release=True,
    ),
    Check(Loader.BOTH, "Legacy model format is not supported on mobile.", checks.legacy, of_release=True),
    Check(Loader.BOTH, MISSING_FILE.format(DATA), checks.missing(DATA)),
    Check(Loader.TORCHSCRIPT, MISSING_FILE.format(CONSTANTS), checks.missing(CONSTANTS)),
    Check(Loader.TORCHSCRIPT, "expected a valid token but found", checks.tokens),
    Check(Loader.TORCHSCRIPT, "ill formed octal specifier", checks.escapes),
    Check(
        Loader.TORCHSCRIPT,
        "object has no attribute or method 'preprocess'",
        checks.stale,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(
        Loader.LITE,
        f"Lite Interpreter version number does not match. The model version must be between "
        f"{LOADED_BYTECODE[0]} and {LOADED_BYTECODE[-1]}",
        checks.bytecode_version,
        of_release=True,
    ),
    Check(
        Loader.LITE,
        "The numbers of bytecode values and debug info values do not match.",
        checks.method_count,
    ),
    Check(
        Loader.LITE,
        "The function names in the bytecode table and the debug info table do not match.",
        checks.method_names,
    ),
    Check(
        Loader.LITE,
        "The numbers of instructions and debug handles strings do not match.",
        checks.instructions,
    ),
    Check(Loader.LITE, "Expected GenericDict but got", checks.members),
    Check(
        Loader.LITE,
        "Pickled map must have four elements: debug_handle, source_range_tag, op name, "
        "IValue(inlined_call_stack)",
        checks.elements,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(Loader.LITE, TAG_MESSAGE, checks.row_tags, mended=checks.can_be_mended),
    Check(
        Loader.LITE,
        f"{TAG_MESSAGE} Not found source range tag",
        checks.call_tags,
        mended=checks.can_be_mended,
    ),
    Check(Loader.LITE, "Debug handles should be unique.", checks.unique),
)
"""All checks, in the order in which PyTorch makes them."""
