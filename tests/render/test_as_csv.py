"""``--format csv``: the rows say what ``--json`` says."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import called, told
from tests.support.corpus import KINDS
from tests.support.tampering import PLAIN, STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path


def rows(*arguments: object) -> list[dict[str, str]]:
    done = called(*arguments, "--format", "csv")
    assert done.exit_code in {0, 1}
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_sizes_have_a_row_for_each_label() -> None:
    labels = told("sizes", STACK, "--by", "weights")["labels"]
    assert isinstance(labels, dict)
    found = rows("sizes", STACK, "--by", "weights")
    assert [row["label"] for row in found] == list(labels)
    for row in found:
        size = labels[row["label"]]
        assert [int(row[name]) for name in ("stored", "inflated", "elements")] == [
            size["stored"],
            size["inflated"],
            size["elements"],
        ]
        assert row["dtypes"].split() == size["dtypes"]
        assert row["file"] == str(STACK)


def test_sizes_since_a_base_have_both(tmp_path: Path) -> None:
    new = tmp_path / "new.ptl"
    new.write_bytes(tampered(STACK, {PLAIN: None, "extra/x": b"12345"}))
    changed = {row["label"]: row for row in rows("sizes", new, "--base", STACK, "--by", "record")}
    assert changed[PLAIN]["new"] == ""
    assert changed["extra/x"]["old"] == ""
    assert int(changed[PLAIN]["old"]) > 0


def test_several_files_have_their_names() -> None:
    other = KINDS / "checkpoint.pt"
    assert {row["file"] for row in rows("sizes", STACK, other)} == {str(STACK), str(other)}
    assert {row["file"] for row in rows("inspect", STACK, other)} == {str(STACK), str(other)}


def test_records_and_leaks_have_rows() -> None:
    records = told("inspect", STACK)["records"]
    assert isinstance(records, dict)
    found = rows("inspect", STACK)
    assert {row["record"]: (int(row["size"]), row["kind"]) for row in found} == {
        name: (record["size"], record["kind"]) for name, record in records.items()
    }
    leaks = rows("leaks", STACK)
    assert len(leaks) > 10
    assert {"true", "false"} >= {row["counted"] for row in leaks}


def test_a_hostile_name_is_one_cell_on_one_line(tmp_path: Path) -> None:
    name = 'extra/a,"b\n\x1b[2J\u202e'
    path = tmp_path / "m.ptl"
    path.write_bytes(tampered(STACK, {name: b"x"}))
    (row,) = (row for row in rows("inspect", path) if row["record"].startswith("extra/"))
    assert row["record"] == 'extra/a,"b\\n\\x1b[2J\\u202e'


@pytest.mark.parametrize("name", ["=1+1", '=HYPERLINK("http://x","y")', "+x", "-y", "@SUM(1)", "'=1"])
def test_no_text_is_a_formula_of_a_spreadsheet(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.ptl"
    path.write_bytes(tampered(STACK, {name: b"x"}))
    records = {row["record"] for row in rows("inspect", path)}
    assert f"'{name}" in records
    assert name not in records


def test_one_form_is_given() -> None:
    assert called("sizes", STACK, "--json", "--format", "csv").exit_code == 2
    assert called("inspect", STACK, "--effects", "--format", "csv").exit_code == 2
    document = called("sizes", STACK, "--format", "json").stdout
    assert document == called("sizes", STACK, "--json").stdout
