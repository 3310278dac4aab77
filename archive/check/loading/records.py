"""Checks of records as such, and of the methods' records against the bytecode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import counted, shown
from archive.check.loading.facts import Fault, whole
from archive.formats import method_handles
from archive.formats.bytecode import BYTECODE
from archive.formats.inert_values import DATA, is_member, objects
from archive.formats.record_kinds import LEGACY_TREE, VERSION_RECORDS
from archive.formats.releases import LOADED_BYTECODE
from archive.formats.stale_methods import may_be_stale, stale_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.check.loading.facts import ParsedRecords

LOADED_VERSIONS = range(1, 11)
"""The versions of the archive's format that PyTorch 2.13 reads."""
CLASS = b"c__torch__."
"""A pickle's instruction that names a class of the model's."""
INTEGER = re.compile(rb"\s*([+-]?\d{1,40})")


def version(facts: ParsedRecords) -> Iterator[Fault]:
    """A version that PyTorch 2.13 does not read: the first number in the first version record."""
    name = next((name for name in VERSION_RECORDS if name in facts.readable), None)
    number = None if name is None else INTEGER.match(bytes(facts.archive.records[name].view()[:64]))
    if name is not None and number is not None and int(number[1]) not in LOADED_VERSIONS:
        known = f"{LOADED_VERSIONS[0]} to {LOADED_VERSIONS[-1]}"
        yield whole(name, f"expected a version from {known}, found {int(number[1])}")


def legacy(facts: ParsedRecords) -> Iterator[Fault]:
    """A module tree as PyTorch wrote it before ``data.pkl``."""
    if LEGACY_TREE in facts.archive.records:
        yield whole(LEGACY_TREE, "the module tree as PyTorch 1.0 to 1.2 wrote it")


def missing(name: str) -> Callable[[ParsedRecords], Iterator[Fault]]:
    """Make the check for a required record."""

    def find(facts: ParsedRecords) -> Iterator[Fault]:
        if name not in facts.archive.records and LEGACY_TREE not in facts.archive.records:
            yield whole("", f"expected a record {name}, found none")

    return find


def stale(facts: ParsedRecords) -> Iterator[Fault]:
    """Lowered modules' code that calls a method which backends no longer have."""
    for name in filter(may_be_stale, facts.readable):
        if stale_methods(bytes(facts.archive.records[name].view())):
            yield whole(name, "a lowered module with the method __preprocess of PyTorch 1.6 to 1.8")


def bytecode_version(facts: ParsedRecords) -> Iterator[Fault]:
    """A version of the bytecode that the lite interpreter does not read."""
    if facts.bytecode is not None and facts.bytecode.version not in LOADED_BYTECODE:
        known = f"{LOADED_BYTECODE[0]} to {LOADED_BYTECODE[-1]}"
        yield whole(BYTECODE, f"expected a version from {known}, found {facts.bytecode.version}")


def method_count(facts: ParsedRecords) -> Iterator[Fault]:
    """Another number of methods with handles than in the bytecode."""
    if facts.methods is None or facts.bytecode is None:
        return
    expected, found = list(facts.bytecode.instructions), list(facts.methods.names)
    if len(expected) != len(found):
        missing = ", ".join(shown(name) for name in expected if name not in found)
        which = f", without {missing}" if missing else ""
        there = counted(len(expected), "method")
        problem = f"expected {there}, as in {BYTECODE}, found {len(found):,}{which}"
        yield whole(method_handles.METHOD_HANDLES, problem)


def method_names(facts: ParsedRecords) -> Iterator[Fault]:
    """Methods with handles that have other names than the bytecode's, in its order."""
    if facts.methods is None or facts.bytecode is None:
        return
    expected, found = list(facts.bytecode.instructions), list(facts.methods.names)
    other = [row for row, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]]
    if len(expected) == len(found):
        yield Fault(
            method_handles.METHOD_HANDLES,
            "methods of other names",
            other,
            lambda row: (
                f"row {row}, field method",
                f"expected {shown(expected[row])}, as in {BYTECODE}, found {shown(found[row])}",
            ),
        )


def members(facts: ParsedRecords) -> Iterator[Fault]:
    """Members of enums, which the lite interpreter has no types for, though it is given them."""
    if facts.bytecode is None:
        return
    for name in (BYTECODE, DATA):
        record = facts.archive.records[name] if name in facts.readable else None
        if record is not None and CLASS in bytes(record.view()):
            value = facts.archive.data if name == DATA else facts.archive.value(name)
            found = next((one for one in objects(value) if is_member(one)), None)
            if found is not None:
                yield whole(name, f"a member of the enum {shown(str(found.what))}")
                return


def instructions(facts: ParsedRecords) -> Iterator[Fault]:
    """Methods with another number of handles than instructions."""
    if facts.methods is None or facts.bytecode is None:
        return
    table, expected = facts.methods, facts.bytecode.instructions
    counts = (table.first[1:] - table.first[:-1]).tolist()
    rows = list(zip(table.names, counts, strict=True))
    other = [row for row, (name, count) in enumerate(rows) if expected.get(name, count) != count]

    def describe(row: int) -> tuple[str, str]:
        name, count = rows[row]
        problem = f"expected as many handles as instructions, {expected[name]}, found {count}"
        return f"row {row}, method {shown(name)}", problem

    yield Fault(method_handles.METHOD_HANDLES, "methods with another number of instructions", other, describe)
