"""The plan of a migration: each step with its number, counted here by the slow reader."""

from __future__ import annotations

import pytest

import archive
from tests.support import slow_reader
from tests.support.corpus import CALLSTACKS, DELEGATED, HANDLES, PATHS, REFUSED, RELEASES
from tests.support.migrations import SCRIPT_1_8, SMALL_1_9, STALE, migrated, original, records
from tests.support.tampering import tampered


def rows(name: str) -> int:
    """The rows of source ranges of an archive."""
    return sum(
        len(slow_reader.source_ranges(data))
        for record, data in original(RELEASES / name).items()
        if record.endswith(".debug_pkl")
    )


def in_map(name: str) -> int:
    """The handles of a call-stack map."""
    return len(slow_reader.callstack_map(original(RELEASES / name)[CALLSTACKS]))


def of_operators(data: bytes) -> int:
    """The module paths of a record."""
    return sum(len(listed) for _, listed in slow_reader.methods(data)[1])


def planned(name: str, to: str) -> dict[str, list[str]]:
    """What a plan tells, but for remarks."""
    plan = archive.migrate(RELEASES / name, to=to, dry_run=True).plan
    steps = {"changes": plan.changes, "rescues": plan.rescues, "losses": plan.losses}
    return {what: [str(step) for step in listed] for what, listed in steps.items() if listed}


@pytest.mark.parametrize(
    ("name", "to", "changes"),
    [
        ("torch-1.5.0/nested.pt", "1.6", ["order of records"]),
        ("torch-1.6.0/nested.pt", "1.5", ["order of records"]),
        ("torch-1.6.0/nested.pt", "1.8", []),
        ("torch-2.0.0/nested.pt", "2.1", ["record byteorder in"]),
        ("torch-2.1.0/nested.pt", "2.0", ["record byteorder out"]),
        ("torch-1.11.0/nested.pt", "1.12", []),
    ],
)
def test_between_releases_of_one_layout_records_come_go_or_change_places(
    name: str, to: str, changes: list[str]
) -> None:
    assert planned(name, to) == ({"changes": changes} if changes else {})
    assert migrated(RELEASES / name, to).plan.is_needed == bool(changes)


def test_source_ranges_of_another_layout_are_counted_where_they_have_rows_to_change() -> None:
    name = "torch-2.13.0/nested.ptl"
    step = f"source ranges, string table to inline rows, rows: {rows(name)}"
    assert planned(name, "inline-rows") == {"changes": [step]}
    assert planned(name, "string-table") == {}
    empty = tampered(SCRIPT_1_8, {"code/x.py": b"", "code/x.py.debug_pkl": b"\x80\x02)."})
    for to, told in (
        ("string-table", ["source ranges, no rows to string table, rows: 0"]),
        ("inline-rows", []),
    ):
        plan = archive.migrate(empty, to=to, dry_run=True).plan
        first = f"source ranges, pair rows to {to.replace('-', ' ')}, rows: {rows('torch-1.8.0/nested.pt')}"
        assert [str(step) for step in plan.changes] == [first, *told]


def test_pair_rows_have_no_tags_for_handles_to_refer_to() -> None:
    name = "torch-2.13.0/nested.ptl"
    assert planned(name, "pair-rows") == {
        "changes": [
            f"source ranges, string table to pair rows, rows: {rows(name)}",
            f"record {CALLSTACKS} out",
        ],
        "losses": [f"source ranges and call stacks of debug handles: {in_map(name)}"],
    }
    assert HANDLES in records(migrated(RELEASES / name, "pair-rows").data)


def test_a_map_of_three_elements_is_mended_and_one_of_four_loses_names() -> None:
    old, new = "torch-1.9.0/nested.ptl", "torch-1.10.0/nested.ptl"
    assert planned(old, "1.10") == {
        "changes": [f"record {DELEGATED} in"],
        "rescues": [f"call-stack map completed, 3 to 4 elements, rows: {in_map(old)}"],
    }
    assert planned(new, "1.9")["changes"] == [f"call-stack map, 4 to 3 elements, rows: {in_map(new)}"]


def test_handles_of_no_source_range_are_mended_where_they_stay() -> None:
    untagged = sum(row.tag == -1 for row in slow_reader.callstack_map(original(REFUSED)[CALLSTACKS]))
    step = f"tags of no source range in the call-stack map: {untagged}"
    for to in ("latest", "2.0", "1.11", "string-table"):
        plan = archive.migrate(REFUSED, to=to, dry_run=True).plan
        assert [str(one) for one in plan.rescues] == [step]
    for to in ("1.8", "pair-rows"):
        assert archive.migrate(REFUSED, to=to, dry_run=True).plan.rescues == []


def test_module_paths_become_handles_and_handles_become_module_paths() -> None:
    old, new = "torch-1.8.0/nested.ptl", "torch-2.13.0/nested.ptl"
    made = records(migrated(RELEASES / old, "2.13").data)
    assert planned(old, "2.13") == {
        "changes": [
            f"source ranges, pair rows to string table, rows: {rows(old)}",
            f"handles and call stacks from module paths: {len(slow_reader.callstack_map(made[CALLSTACKS]))}",
            f"record {PATHS} out",
            *(f"record {name} in" for name in (DELEGATED, CALLSTACKS, HANDLES, "byteorder")),
        ]
    }
    made = records(migrated(RELEASES / new, "1.8").data)
    assert planned(new, "1.8") == {
        "changes": [
            f"source ranges, string table to pair rows, rows: {rows(new)}",
            f"module paths from call stacks: {of_operators(made[PATHS])}",
            *(f"record {name} out" for name in (HANDLES, DELEGATED, CALLSTACKS, "byteorder")),
            f"record {PATHS} in",
        ],
        "losses": [f"source ranges and call stacks of debug handles: {in_map(new)}"],
    }


def test_operators_that_only_the_bytecode_tells_are_no_loss() -> None:
    (loss,) = planned("torch-1.8.0/nested.ptl", "1.9")["losses"]
    assert loss.startswith("names of functions: ")


def test_what_a_release_before_handles_has_no_place_for_is_lost_by_name() -> None:
    lowered, paths = "torch-2.13.0/lowered.ptl", "torch-1.8.0/nested.ptl"
    delegated = slow_reader.source_ranges(original(RELEASES / lowered)[DELEGATED])
    assert planned(lowered, "1.6")["losses"] == [
        f"source ranges of lowered modules: {len(delegated)}",
        f"source ranges and call stacks of debug handles: {in_map(lowered)}",
    ]
    assert planned(paths, "1.6") == {
        "changes": [f"record {PATHS} out"],
        "losses": [f"module paths of operators: {of_operators(original(RELEASES / paths)[PATHS])}"],
    }
    alone = tampered(SMALL_1_9, {CALLSTACKS: None})
    losses = archive.migrate(alone, to="1.8", dry_run=True).plan.losses
    instructions = of_operators(original(SMALL_1_9)[HANDLES])
    assert [str(step) for step in losses] == [f"debug handles of instructions: {instructions}"]


def test_the_bytes_of_a_stale_method_are_counted() -> None:
    name = "torch-1.8.0/lowered.pt"
    less = len(original(RELEASES / name)[STALE]) - len(records(migrated(RELEASES / name, "1.9").data)[STALE])
    assert planned(name, "1.9")["rescues"] == [f"stale method __preprocess out of {STALE}, bytes: {less}"]
    assert "rescues" not in planned(name, "1.7")


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("torch-1.10.0/nested.ptl", "1.11"),
        ("torch-1.9.0/nested.ptl", "1.10"),
        ("torch-1.9.0/nested.ptl", "latest"),
        ("torch-2.13.0/nested.ptl", "2.4"),
        ("torch-2.13.0/nested.ptl", "latest"),
        ("torch-2.13.0/nested.pt", "1.4"),
        ("torch-2.13.0/nested.ptl", "inline-rows"),
    ],
)
def test_bytecode_that_the_target_reads_is_not_remarked_on(name: str, to: str) -> None:
    assert archive.migrate(RELEASES / name, to=to, dry_run=True).plan.remarks == []


@pytest.mark.parametrize(
    ("number", "is_read"), [(0, False), (3, False), (4, True), (9, True), (10, False), (99, False)]
)
def test_the_newest_release_reads_bytecode_from_4_to_9(number: int, *, is_read: bool) -> None:
    path = RELEASES / "torch-2.13.0" / "nested.ptl"
    head = b"\x80\x02(K\x08"
    code = original(path)["bytecode.pkl"]
    assert code.startswith(head)
    data = tampered(path, {"bytecode.pkl": code.replace(head, head[:-1] + bytes([number]), 1)})
    for to, known in (("latest", is_read), ("2.4", number <= 8)):
        remarks = archive.migrate(data, to=to, dry_run=True).plan.remarks
        assert (remarks == []) == known, (to, remarks)
