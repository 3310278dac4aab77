"""What ``verify`` says it has looked at: counts are those of the file, and nothing unread is among them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import archive
from archive.check.verify import verification
from archive.reader.loading import CHECKS, Loader
from tests.support.commands import told
from tests.support.corpus import ARCHIVES, CALLSTACKS, FIXTURES, HANDLES, KINDS, RELEASES
from tests.support.sampling import sampled
from tests.support.tampering import LOWERED, PLAIN, STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path


def counts(source: Path | bytes) -> dict[str, int]:
    """How many of each thing were looked at, by the words behind the number."""
    found = {}
    for sentence in verification(source).checked:
        number, _, words = sentence.partition(" ")
        found[words] = int(number.replace(",", ""))
    return found


def about(source: Path | bytes, noun: str) -> int:
    return sum(count for words, count in counts(source).items() if words.startswith(noun))


@pytest.mark.parametrize("path", sampled(ARCHIVES, 20), ids=str)
def test_the_counts_are_those_of_the_file(path: Path) -> None:
    with archive.open(path) as opened:
        assert about(path, "record") == len(opened.records)
        assert about(path, "source range") == len(opened.range_table)
        assert about(path, "debug handle") == len(opened.handles)
        tables = opened.method_records.values()
        assert about(path, "instruction") == sum(len(table.value) for table in tables)
        assert about(path, "lowered module") == (len(opened.lowered) if opened.handles else 0)


def test_what_cannot_be_read_is_not_claimed() -> None:
    assert about(tampered(STACK, {CALLSTACKS: b"broken"}), "debug handle") == 0
    assert about(tampered(LOWERED, {CALLSTACKS: None}), "lowered module") == 0
    assert about(tampered(STACK, {HANDLES: b"broken"}), "instruction") == 0
    with archive.open(STACK) as opened:
        rows = len(opened.range_table) - len(opened.ranges(PLAIN))
    assert about(tampered(STACK, {f"{PLAIN}.debug_pkl": b"broken"}), "source range") == rows
    assert verification(KINDS / "etdump.bin").checked == []
    assert verification(STACK.read_bytes()[:-100]).checked == []


def test_programs_and_models_are_counted() -> None:
    path = FIXTURES / "exported" / "several.pt2"
    with archive.open(path) as opened:
        assert about(path, "exported program") == len(opened.programs)
        nodes = sum(len(program.sites) for program in opened.programs.values())
        assert about(path, "node") == nodes
    compiled = FIXTURES / "compiled" / "several.pt2"
    with archive.open(compiled) as opened:
        assert about(compiled, "compiled model") == len(opened.compiled)
    record = FIXTURES / "executorch" / "shop.etrecord"
    assert about(record, "node") > 0


def test_json_has_the_sentences() -> None:
    facts = told("verify", STACK)
    assert facts["checked"] == verification(STACK).checked
    assert facts["diagnostics"] == []
    assert f"{len(archive.open(STACK).records)} records read whole" in verification(STACK).checked


def test_checks_of_the_lite_interpreter_are_not_counted_where_it_has_no_code() -> None:
    made = re.compile(r"([0-9]+) checks made that PyTorch 2.13 makes")
    script, lite = (
        int(match[1])
        for path in (RELEASES / "torch-1.4.0/nested.pt", STACK)
        for match in map(made.match, verification(path).checked)
        if match
    )
    assert script == sum(check.loader is not Loader.LITE for check in CHECKS)
    assert lite == len(CHECKS)
