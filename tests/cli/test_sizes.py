"""``debug-archive sizes`` as a user meets it: tables, JSON, budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import archive
from archive.cli.commands import group
from archive.describe.inventory import inventoried
from archive.describe.listing import listed
from archive.describe.sizes.account import Part
from archive.describe.sizes.budgets import SizeBudget
from archive.formats.record_kinds import BESIDE, MetadataKind, RecordKind, SpareKind
from tests.support.commands import run
from tests.support.corpus import FIXTURES, KINDS, RELEASES, ZIPS
from tests.support.documents import file_of
from tests.support.halves import halves
from tests.support.zips import zipped

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
NESTED_1_9 = RELEASES / "torch-1.9.0" / "nested.ptl"
SMALL = {"m/data/0": b"x" * 100, "m/extra/a": b"12", "m/version": b"3\n"}


def sizes(*arguments: object) -> Result:
    return CliRunner().invoke(group, ["sizes", *map(str, arguments)])


def cells(output: str) -> list[list[str]]:
    """A table's rows, each as its cells."""
    rows = [line.rstrip() for line in output.splitlines()]
    return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows[2:]]


def test_the_table_is_sorted_and_ends_with_the_files_size() -> None:
    done = sizes(NESTED)
    assert done.exit_code == 0
    *rows, total = cells(done.stdout)
    assert done.stdout.splitlines()[0].split() == ["kind", "stored", "%", "inflated"]
    assert rows[:2] == [["bytecode", "2,851", "28.9%", "2,851"], ["source ranges", "1,190", "12.0%", "2,374"]]
    assert rows[3] == ["directory", "1,121", "11.3%"]  # the zip's own bytes have no inflated size
    numbers = [int(row[1].replace(",", "")) for row in rows]
    assert numbers == sorted(numbers, reverse=True)
    assert sum(numbers) == NESTED.stat().st_size
    assert total[:3] == ["total", f"{NESTED.stat().st_size:,}", "100.0%"]


def test_all_but_the_first_rows_are_one() -> None:
    everything = cells(sizes(NESTED, "--by", "record", "-n", 0).stdout)
    *shown, others, total = cells(sizes(NESTED, "--by", "record", "-n", 3).stdout)
    assert shown == everything[:3]
    assert others[0] == f"[{len(everything) - 4} others]"
    left = sum(int(row[1].replace(",", "")) for row in everything[3:-1])
    assert others[1] == f"{left:,}"
    assert total == everything[-1]


def test_a_single_row_more_is_shown_itself() -> None:
    count = len(archive.sizes(NESTED).by("kind"))
    assert "others]" not in sizes(NESTED, "-n", count - 1).stdout
    assert "[2 others]" in sizes(NESTED, "-n", count - 2).stdout


@pytest.mark.parametrize("view", ["kind", "part", "record", "module", "source"])
def test_json_has_all_rows_of_each_view(view: str) -> None:
    facts = file_of(sizes(NESTED, "--by", view, "-n", 1, "--json").stdout)
    account = archive.sizes(NESTED)
    assert (facts["file"], facts["size"], facts["by"]) == (str(NESTED), account.size, view)
    assert facts["debug_bytes"] == account.debug_bytes
    assert {label: size["stored"] for label, size in facts["labels"].items()} == {
        label: size.stored for label, size in account.by(view).items()
    }


def test_depth_rolls_modules_up() -> None:
    assert any(row[0] == "__torch__.*" for row in cells(sizes(NESTED, "--by", "module", "--depth", 1).stdout))


def test_the_difference_of_two_files(tmp_path: Path) -> None:
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    old.write_bytes(zipped(**SMALL))
    new.write_bytes(zipped(**{"m/data/0": b"x" * 70, "m/extra/b": b"1", "m/version": b"3\n"}))
    done = sizes(new, "--base", old, "--by", "record")
    assert done.stdout.splitlines()[0].split() == ["record", "old", "new", "difference", "%"]
    assert cells(done.stdout) == [
        ["extra/a", "96", "-96", "gone"],
        ["extra/b", "95", "+95", "new"],
        ["data/0", "192", "162", "-30", "-15.6%"],
        ["[directory]", "22", "22", "0"],
        ["version", "96", "96", "0"],
        ["total", "406", "375", "-31", "-7.6%"],
    ]
    facts = file_of(sizes(new, "--base", old, "--by", "record", "--json").stdout)
    assert facts["base"]["size"] == 406
    assert facts["labels"]["extra/a"] == {"old": 96, "new": None}


def test_the_others_of_a_difference_are_summed(tmp_path: Path) -> None:
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    old.write_bytes(zipped(**SMALL))
    new.write_bytes(zipped(**{"m/data/0": b"x" * 70, "m/extra/b": b"1", "m/version": b"3\n"}))
    assert cells(sizes(new, "--base", old, "--by", "record", "-n", 1).stdout) == [
        ["extra/a", "96", "-96", "gone"],
        ["[4 others]", "310", "375", "+65", "+21.0%"],
        ["total", "406", "375", "-31", "-7.6%"],
    ]
    assert cells(sizes(old, "--base", new, "--by", "record", "-n", 1).stdout)[1] == [
        "[4 others]",
        "375",
        "310",
        "-65",
        "-17.3%",
    ]


# --- budgets


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("5MB", SizeBudget("", 5_000_000, growth=False)),
        ("source ranges=100KiB", SizeBudget("source ranges", 102_400, growth=False)),
        ("debug=+1.5 kb", SizeBudget("debug", 1_500, growth=True)),
        ("a=b=7", SizeBudget("a=b", 7, growth=False)),
        ("+0", SizeBudget("", 0, growth=True)),
        ("1GiB", SizeBudget("", 1 << 30, growth=False)),
        ("1G", SizeBudget("", 1 << 30, growth=False)),
        ("a=5 tb", SizeBudget("a", 5 * 10**12, growth=False)),
    ],
)
def test_budgets_are_a_label_and_a_size(text: str, budget: SizeBudget) -> None:
    assert SizeBudget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "MB", "-5", "5PB", "=5", "data=", "1e3", "5 5", "9" * 5_000])
def test_what_is_no_budget_is_a_usage_error(text: str) -> None:
    done = sizes(NESTED, "--budget", text)
    assert done.exit_code == 2
    assert "could not parse the budget" in done.stderr
    assert len(done.stderr) < 500


def test_budgets_that_are_kept_say_nothing() -> None:
    done = sizes(NESTED, "--budget", "9881", "--budget", "source ranges=1190", "--budget", "debug=3017")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == sizes(NESTED).stdout


def test_each_exceeded_budget_is_a_line() -> None:
    done = sizes(NESTED, "--budget", "9KB", "--budget", "source ranges=1189", "--budget", "debug=3016B")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"debug-archive: {NESTED}: 9,881 bytes, 881 over the budget of 9,000",
        f"debug-archive: {NESTED}: source ranges: 1,190 bytes, 1 over the budget of 1,189",
        f"debug-archive: {NESTED}: debug: 3,017 bytes, 1 over the budget of 3,016",
    ]
    assert done.stdout == sizes(NESTED).stdout


def test_budgets_of_growth_need_a_base() -> None:
    done = sizes(
        *(NESTED, "--base", NESTED_1_9, "--budget", "+1KB"),
        *("--budget", "method handles=+0", "--budget", "tensor=+0"),
    )
    assert done.exit_code == 1
    assert done.stderr == f"debug-archive: {NESTED}: grew by 1,088 bytes, 88 over the budget of 1,000\n"
    done = sizes(NESTED, "--budget", "+1KB")
    assert done.exit_code == 2
    assert "is for the difference from a BASE" in done.stderr


def test_an_unknown_label_is_a_usage_error_that_lists_those_there_are() -> None:
    done = sizes(NESTED, "--budget", "ranges=1KB")
    assert done.exit_code == 2
    assert "no label 'ranges' by kind; there are: bytecode, source ranges, " in done.stderr
    done = sizes(NESTED, "--budget", "data.pkl=1KB", "--by", "source")
    assert "no label 'data.pkl' by source" in done.stderr


@pytest.mark.parametrize("view", ["kind", "part", "module", "source", "weights"])
def test_what_an_inventory_counts_is_a_label_of_every_view_by_the_same_word(view: str) -> None:
    row = inventoried(NESTED)
    for label, size in (("debug", row.debug_bytes), ("weights", row.weight_bytes), ("code", row.code_bytes)):
        assert sizes(NESTED, "--by", view, "--budget", f"{label}={size}").exit_code == 0
        done = sizes(NESTED, "--by", view, "--budget", f"{label}={(size or 0) - 1}")
        assert f"{label}: {size:,} bytes, 1 over" in done.stderr
        assert f", {label}" in sizes(NESTED, "--by", view, "--budget", "nothing=1").stderr


def test_kinds_that_a_file_has_none_of_may_have_a_budget() -> None:
    assert sizes(NESTED, "--budget", "module paths=0").exit_code == 0
    assert sizes(NESTED, "--by", "part", "--budget", "unreadable=0").exit_code == 0


def test_a_budget_may_be_for_a_label_that_is_gone(tmp_path: Path) -> None:
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    old.write_bytes(zipped(**SMALL))
    new.write_bytes(zipped(**{"m/version": b"3\n"}))
    assert sizes(new, "--base", old, "--by", "record", "--budget", "extra/a=+0").exit_code == 0


# --- as other commands


def test_it_is_a_command_with_examples() -> None:
    done = run("sizes", "--help")
    assert done.returncode == 0
    assert b"Examples:\n    debug-archive sizes model.ptl\n" in done.stdout


def test_garbage_is_one_line_and_status_2(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.ptl"
    garbage.write_bytes(b"PK\3\4 garbage")
    done = run("sizes", NESTED, "--base", garbage)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"debug-archive: {garbage}: ".encode())
    assert done.stderr.count(b"\n") == 1


def test_names_cannot_drive_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "escapes.pt"
    path.write_bytes(zipped(**{"m/extra/\x1b[2Jred": b"", "m/version": b"3\n"}))
    done = sizes(path, "--by", "record", "--budget", "extra/\x1b[2Jred=1")
    assert "\x1b" not in done.stdout + done.stderr
    assert "extra/\\x1b[2Jred" in done.stdout
    assert done.stderr.endswith("extra/\\x1b[2Jred: 106 bytes, 105 over the budget of 1\n")


@pytest.mark.parametrize("file", ZIPS)
def test_sizes_and_inspect_have_the_same_words_for_what_is_in_a_zip(file: str) -> None:
    records = listed(KINDS / file).records
    known = {one.kind for one in records.values()}
    if any(name.endswith(BESIDE) for name in records):  # zips, whose own records `sizes` tells apart
        known.add(RecordKind.OBJECT)
    told = archive.sizes(KINDS / file).by("kind")
    assert {kind for kind, size in told.items() if size.inflated} - {
        *Part,
        *MetadataKind,
        *SpareKind,
    } <= known


def test_a_broken_companion_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.ptdbg"
    data = bytearray(halves(NESTED).companion)
    data[-1] ^= 1
    path.write_bytes(data)
    assert run("sizes", path).stderr.startswith(f"debug-archive: {path}: section ".encode())


def test_a_budget_of_debug_info_holds_for_companions() -> None:
    companion = FIXTURES / "fleet" / "Ranker.ptdbg"
    done = CliRunner().invoke(group, ["sizes", str(companion), "--budget", "debug=3KB"])
    assert done.stderr == f"debug-archive: {companion}: debug: 3,727 bytes, 727 over the budget of 3,000\n"
    assert done.exit_code == 1
