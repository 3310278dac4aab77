"""The checks that PyTorch 2.13 makes when it loads an archive, in its order and with its own messages.

:mod:`archive.check.verify` reports the ``CHECKS`` that fail, and each command makes them before it says that
PyTorch loads a file it wrote. Each check was tried with PyTorch 2.13;
``fixtures/releases/oracle-2.13.0.json`` has its answer for each archive. A check finds one of two things:

- a *contradiction* between records: every release that reads these records refuses the archive;
- a format of *another release* that 2.13 does not read: the archive itself is right, and a migration mends
  what can be mended.

Not listed:

- a torch.package, which another importer loads;
- the compilation of generated code, of which only the characters are checked here;
- the making of objects, which needs the model's operators, custom classes and backends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.check.loading import code, handles, records
from archive.check.loading.facts import ParsedRecords
from archive.debuginfo.mending import tags_of
from archive.formats.inert_values import DATA
from archive.formats.releases import LOADED_BYTECODE
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.check.loading.facts import Fault
    from archive.reader.archive import Archive

__all__ = ["CHECKS", "Check", "Loader", "ParsedRecords", "Refusal", "loaded_like", "refusals"]

CONSTANTS_RECORD = "constants.pkl"
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

    def told(self, facts: ParsedRecords) -> str:
        """PyTorch's refusal of an archive that fails the check, and the way out where there is one."""
        way_out = "; `debug-archive migrate --to latest` mends it" if self.mended(facts) else ""
        return f'{self.loader} refuses it: "{self.message}"{way_out}'


class Refusal(NamedTuple):
    """A check that an archive fails, and the first place where it does.

    Attributes:
        check: the check.
        told: PyTorch's refusal, and the way out where there is one.
        record: the record; "" for the archive as a whole.
        place: the place in the record.
        problem: the problem at this place.
    """

    check: Check
    told: str
    record: str
    place: str
    problem: str


def refusals(archive: Archive, like: Archive | None = None) -> list[Refusal]:
    """The checks that an archive fails; none for a torch.package.

    Args:
        archive: the archive.
        like: another archive with the same bytecode, whose parsed bytecode is used.

    Raises:
        ArchiveError: a record is broken.
    """
    if archive.recognised.kind is FileKind.PACKAGE:
        return []
    bytecode = (archive if like is None else like).bytecode
    tags = tags_of(archive.range_table)
    facts = ParsedRecords(
        archive, archive.records, tags, archive.handle_table, archive.method_table, bytecode
    )
    found = []
    for check in CHECKS:
        fault = next((one for one in check.find(facts) if len(one.found)), None)
        if fault is not None:
            place, problem = fault.describe(int(fault.found[0]))
            found.append(Refusal(check, check.told(facts), fault.record, place, problem))
    return found


def loaded_like(after: Archive, before: Archive, *, same_bytecode: bool = True) -> list[Refusal]:
    """The checks that an archive fails, and none of them because of what was made of its records.

    Args:
        after: the archive.
        before: what it was made from.
        same_bytecode: whether both have the same bytecode, which is then parsed once.

    Raises:
        ArchiveError: a record is broken, or contradicts others and did not before.
    """
    found = refusals(after, before if same_bytecode else None)
    new = [refusal for refusal in found if not refusal.check.of_release]
    known = {_about(refusal.check) for refusal in refusals(before)} if new else set()
    for one in new:
        if _about(one.check) not in known:
            what = f"{one.problem}: {one.told}; nothing is written"
            raise ArchiveError(what, record=one.record or None, place=one.place or None)
    return found


def _about(check: Check) -> str:
    """The subject of a check: tags of rows and of calls are one, for without tags both fail."""
    return TAG_MESSAGE if check.message.startswith(TAG_MESSAGE) else check.message


CHECKS = (
    Check(
        Loader.BOTH,
        "Attempted to read a PyTorch file with version",
        records.version,
        of_release=True,
    ),
    Check(Loader.BOTH, "Legacy model format is not supported on mobile.", records.legacy, of_release=True),
    Check(Loader.BOTH, MISSING_FILE.format(DATA), records.missing(DATA)),
    Check(Loader.TORCHSCRIPT, MISSING_FILE.format(CONSTANTS_RECORD), records.missing(CONSTANTS_RECORD)),
    Check(Loader.TORCHSCRIPT, "expected a valid token but found", code.tokens),
    Check(Loader.TORCHSCRIPT, "ill formed octal specifier", code.escapes),
    Check(
        Loader.TORCHSCRIPT,
        "object has no attribute or method 'preprocess'",
        records.stale,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(
        Loader.LITE,
        f"Lite Interpreter version number does not match. The model version must be between "
        f"{LOADED_BYTECODE[0]} and {LOADED_BYTECODE[-1]}",
        records.bytecode_version,
        of_release=True,
    ),
    Check(
        Loader.LITE,
        "The numbers of bytecode values and debug info values do not match.",
        records.method_count,
    ),
    Check(
        Loader.LITE,
        "The function names in the bytecode table and the debug info table do not match.",
        records.method_names,
    ),
    Check(
        Loader.LITE,
        "The numbers of instructions and debug handles strings do not match.",
        records.instructions,
    ),
    Check(Loader.LITE, "Expected GenericDict but got", records.members),
    Check(
        Loader.LITE,
        "Pickled map must have four elements: debug_handle, source_range_tag, op name, "
        "IValue(inlined_call_stack)",
        handles.elements,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(Loader.LITE, TAG_MESSAGE, handles.row_tags, mended=handles.can_be_mended),
    Check(
        Loader.LITE,
        f"{TAG_MESSAGE} Not found source range tag",
        handles.call_tags,
        mended=handles.can_be_mended,
    ),
    Check(Loader.LITE, "Debug handles should be unique.", handles.unique),
)
"""All checks, in the order in which PyTorch makes them."""
