"""Tables keep their numbers at any width: names lose their middle, texts are wrapped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import archive
from archive.container.write import member_from, new_member
from archive.describe.inspect import inspect
from archive.describe.sizes import View, sizes
from archive.privacy.leaks import Finding, LeakKind, Place
from archive.render.fitted_table import GAP, Bold, FittedTable, hanging, in_the_middle, lines_of, shortened
from archive.render.inspect import inspection_text
from archive.render.leaks import SHORTENED, leaks_table
from archive.render.making import Sized, join_text, shrink_text, split_text
from archive.render.sizes import difference_text, sizes_text
from archive.rewrite.join import Join
from archive.rewrite.shrink import shrink
from archive.rewrite.split import Split
from tests.support.corpus import FIXTURES, ORACLES, RELEASES
from tests.support.sampling import crossed
from tests.support.strategies import patient
from tests.support.tampering import packed
from tests.support.terminals import terminal

if TYPE_CHECKING:
    from pathlib import Path

    from archive.render.fitted_table import Printed

SAMPLES = [
    ORACLES / "plain_unicode.ptl",
    ORACLES / "lowered_shape.ptl",
    RELEASES / "torch-1.9.0" / "nested.ptl",
    RELEASES / "torch-2.13.0" / "nested.pt",
    FIXTURES / "effects" / "counting.pt",
]
WIDTHS = (80, 60, 40)
LARGE = 123_456_789_012
LONG = "models/" + "a_folder_with_a_long_name/" * 6 + "encoder.ptl"
CHINESE = "模型/" + "很长的文件夹名称/" * 8 + "编码器.ptl"
ESCAPE = re.compile("\x1b\\[[0-9;]*m")
NUMBER = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?%?")


def rendered(printed: Printed, width: int) -> str:
    return "".join("".join(text for text, _ in line) + "\n" for line in lines_of(printed, width))


def assert_keeps_its_numbers(printed: Printed) -> None:
    """Check at each width that every number of the cells is shown as often, and that no line is wider."""
    parts = list(printed)
    tables = [part for part in parts if isinstance(part, FittedTable)]
    numbers = Counter(
        NUMBER.findall(" ".join(cell for table in tables for row, _ in table.texts for cell in row[1:]))
    )
    assert numbers
    for width in WIDTHS:
        text = rendered(parts, width)
        assert not numbers - Counter(NUMBER.findall(text)), f"{width} columns\n{text}"
        assert max(map(cell_len, text.splitlines())) <= width


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_inspect_keeps_its_numbers(path: Path) -> None:
    with archive.open(path) as opened:
        assert_keeps_its_numbers(inspection_text(inspect(opened)))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_sizes_keep_their_numbers(path: Path, tmp_path: Path) -> None:
    shrink(path, tmp_path / "small.ptl")
    with archive.open(path) as opened, archive.open(tmp_path / "small.ptl") as small:
        old, new = sizes(opened), sizes(small)
    for view in View:
        assert_keeps_its_numbers([sizes_text(old.size, old.by(view), view, 0)])
        assert_keeps_its_numbers([difference_text(old.size, new.size, new.difference(old, view), view, 0)])


@pytest.mark.parametrize("name", [LONG, CHINESE, "m.ptl"])
def test_what_became_of_a_file_keeps_its_numbers(name: str) -> None:
    before, after = Sized(name, LARGE), Sized(f"small/{name}", LARGE // 3)
    companion = Sized(f"companions/{name}", LARGE // 7)
    halves = Split(
        LARGE, LARGE // 3, LARGE // 7, 0, (), (), (), {}, 0, 0, "", exact=True, archive_id="", refused=()
    )
    joined = Join(LARGE, 12_345, 0, 0, exact=True, another=False, archive_id="")
    assert_keeps_its_numbers(split_text(halves, before, after, companion))
    assert_keeps_its_numbers(join_text(joined, after, before, companion))


@pytest.mark.parametrize("level", ["compact", "embed"])
def test_what_became_of_each_kind_keeps_its_numbers(level: str, tmp_path: Path) -> None:
    facts = shrink(SAMPLES[0], tmp_path / "small.ptl", level=level)
    assert_keeps_its_numbers(shrink_text(facts, Sized(LONG, LARGE), Sized(CHINESE, LARGE // 3)))


def test_records_of_any_name_and_size_keep_their_numbers() -> None:
    with archive.open(SAMPLES[0]) as opened:
        members = [member_from(record) for record in opened.container.records.values()]
    odd = (LONG, CHINESE, "data/" + "x" * 300, "code/é\n\x1b[31m")
    members += [new_member(name, bytes(1_234_567)) for name in odd]
    with archive.open(packed(members)) as opened:
        assert_keeps_its_numbers(inspection_text(inspect(opened)))


names = st.text(st.sampled_from("ab/_.é模型\u0301 "), max_size=90)
numbers = st.integers(-LARGE, LARGE).map("{:,}".format)
texts = st.lists(st.sampled_from(["string", "table", "1,234", "rows", "of 99%"]), max_size=12).map(" ".join)


@patient
@given(st.lists(st.tuples(names, numbers, numbers, texts), max_size=8), st.integers(24, 200))
def test_any_table_keeps_its_numbers(rows: list[tuple[str, str, str, str]], width: int) -> None:
    listing = FittedTable([("file", "name"), ("old", "number"), ("new", "number"), ("holds", "text")])
    for row in rows:
        listing.add(*row)
    text = rendered([listing], width)
    cells = Counter(NUMBER.findall(" ".join(" ".join(row[1:]) for row in rows)))
    assert not cells - Counter(NUMBER.findall(text))
    assert all(cell_len(line) <= width for line in text.splitlines())


# --- names


@pytest.mark.parametrize(
    ("width", "name"),
    [
        (43, "code/__torch__/torchvision/models/resnet.py"),
        (42, "code/__torch__/…/models/resnet.py"),
        (32, "code/…/models/resnet.py"),
        (22, "code/…/resnet.py"),
        (15, "…/resnet.py"),
        (10, "code…et.py"),
    ],
)
def test_a_name_loses_its_middle(width: int, name: str) -> None:
    assert in_the_middle("code/__torch__/torchvision/models/resnet.py", width) == name


@given(names, st.integers(1, 100))
def test_a_shortened_name_fits(name: str, width: int) -> None:
    short = in_the_middle(name, width)
    assert cell_len(short) <= width
    assert ("…" in short) == (cell_len(name) > width)


def test_of_a_long_last_part_the_middle_goes() -> None:
    place = "code/__torch__/torch/nn/modules/linear.py.debug_pkl, byte 220"
    assert in_the_middle(place, 24) == "linear.py.d…kl, byte 220"


def test_names_that_would_look_the_same_are_cut_elsewhere_or_stay_whole() -> None:
    alike = ["code/__torch__/a/mangle_1/conv.py", "code/__torch__/a/mangle_2/conv.py"]
    other = "code/__torch__/a/b/c/linear.py"
    assert shortened([*alike, other], 20) == [
        "code/__to…_1/conv.py",
        "code/__to…_2/conv.py",
        "code/…/c/linear.py",
    ]
    assert shortened([*alike, other], 17) == [*alike, "code/…/linear.py"]


def test_names_that_are_the_same_are_cut_as_one() -> None:
    name = "code/__torch__/torchvision/models/resnet.py"
    assert shortened([name, name], 22) == ["code/…/resnet.py"] * 2


# --- on a terminal


def on_a_terminal(width: int, *arguments: object) -> str:
    """The output of a command on a terminal of this width; its bars are on another one's standard error."""
    command = [sys.executable, "-c", "from archive.cli import main; main()", *map(str, arguments)]
    env = {**os.environ, "COLUMNS": str(width), "TERM": "xterm"}
    with terminal() as seen:
        done = subprocess.run(command, stdout=seen.file, env=env, check=False)
    assert done.returncode in {0, 1}
    return ESCAPE.sub("", seen.shown.decode())


@pytest.mark.parametrize("width", WIDTHS)
def test_inspect_shows_all_sizes_on_a_terminal(width: int) -> None:
    text = on_a_terminal(width, "inspect", SAMPLES[1])
    with archive.open(SAMPLES[1]) as opened:
        sizes = [f"{size:,}" for one in opened.records.values() for size in (one.size, one.stored_size)]
    assert not Counter(sizes) - Counter(NUMBER.findall(text))
    assert all(cell_len(line) <= width for line in text.splitlines())


COMMANDS = {
    "leaks": "leaks {long}",
    "leaks of a program": "leaks {program}",
    "digest": "digest --parts {long}",
    "causes": "symbolicate {fleet} --log {fleet}/unique.log --top 20",
    "diff": "diff {long} {other}",
    "diff of folders": "diff {long}/.. {other}/..",
    "split": "split {long} -o {out}",
    "sizes": "sizes {long}/.. --by record",
}
"""Commands whose tables have long names in them."""


@pytest.mark.parametrize(("command", "width"), crossed(COMMANDS, [80, 40], most=len(COMMANDS)))
def test_tables_fit_a_terminal(command: str, width: int, tmp_path: Path) -> None:
    long, other = (tmp_path / side / ("a_folder_with_a_long_name_" * 4) / "model.ptl" for side in "ab")
    for path, name in ((long, "plain_stack.ptl"), (other, "plain_unicode.ptl")):
        path.parent.mkdir(parents=True)
        path.write_bytes((ORACLES / name).read_bytes())
    places = {"long": long, "other": other, "out": long.with_name("small_" + "x" * 60 + ".ptl")}
    words = COMMANDS[command].replace("/..", "|..").split()
    paths = {name: str(path) for name, path in places.items()}
    paths |= {"fleet": str(FIXTURES / "fleet"), "program": str(FIXTURES / "exported" / "decoder.pt2")}
    shown = on_a_terminal(
        width, *(os.path.normpath(word.format(**paths).replace("|", "/")) for word in words)
    )
    wide = [line for line in shown.splitlines() if cell_len(line) > width]
    assert shown
    assert not wide


@pytest.mark.parametrize("width", WIDTHS)
def test_what_leaks_is_whole_even_where_a_table_is_narrow(width: int) -> None:
    model = ORACLES / "plain_stack.ptl"
    lines = on_a_terminal(width, "leaks", model).splitlines()
    start, end = (lines[0].find(title) for title in ("text ", "first at"))  # of a table; or else of the lines
    texts = "".join((line[start:end] if end > 0 else line).strip() for line in lines)
    paths = [one.text for one in archive.leaks(model).findings if one.kind == "site-packages path"]
    assert len(paths) == 4
    assert all(path in texts for path in paths)
    assert any("byte 220" in line for line in lines)


def test_a_leak_that_is_too_long_for_a_table_shows_that_it_is_cut() -> None:
    finding = Finding(LeakKind.COMMENT, "x" * 200, count=1, places=[Place("a.py")])
    [line] = leaks_table([finding], 3).texts
    assert line[0][2] == "x" * (SHORTENED - 1) + "…"


def test_releases_and_kinds_are_whole_even_where_a_table_is_narrow() -> None:
    shown = on_a_terminal(80, "inspect", ORACLES)
    words = [line[:18].split() for line in shown.splitlines()]
    assert ["PyTorch", "2.1", "or"] in words
    assert ["later"] in words
    assert ["TorchScript"] in words


def test_digests_of_parts_stay_whole() -> None:
    digests = archive.digest(SAMPLES[1]).parts.values()
    for width in (80, 120):
        shown = on_a_terminal(width, "digest", "--parts", SAMPLES[1])
        assert not [digest for digest in digests if digest not in shown]


def test_rows_below_each_other_say_what_their_number_is() -> None:
    shown = rendered([FittedTable([("failures", "number"), ("cause", "text")], [(["12", "x" * 40], "")])], 16)
    assert shown.startswith("failures 12\n")


@pytest.mark.parametrize("width", [20, 33, 80])
def test_a_wide_line_hangs_below_its_beginning(width: int) -> None:
    line = "  ~ method __torch__.plain.Stack.forward: source +5 -4, models/plain.py:53; generated code +3 -6"
    lines = list(hanging(line, width))
    assert max(map(cell_len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(line.split())
    assert all(part.startswith("      ") for part in lines[1:])


def test_lines_for_other_programs_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 200) / ("m" * 200) / "model.ptl"
    path.parent.mkdir(parents=True)
    path.write_bytes(SAMPLES[0].read_bytes())
    command = [sys.executable, "-c", "from archive.cli import main; main()", "split", str(path)]
    done = subprocess.run(
        [*command, "-o", path.with_name("small.ptl")], capture_output=True, text=True, check=True
    )
    assert sum(line.startswith(f"{path} ") for line in done.stdout.splitlines()) == 1


@given(st.integers(45, 100), st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1))
def test_no_number_is_parted_from_its_heading(width: int, numbers: list[tuple[int, int]]) -> None:
    """Where rows stand one below the other, a value is in the line of its heading."""
    table = FittedTable.of("kind of file", "debug info", "weights of all tensors", "%")
    for first, second in numbers:
        table.add("TorchScript archive", first, second, 100)
    lines = ["".join(text for text, _ in line) for line in table.lines(width)]
    assert all(len(line) <= width for line in lines)
    if lines[0].startswith("TorchScript"):
        for first, second in numbers:
            assert any(f"debug info {first:,}" in line for line in lines)
            assert any(f"weights of all tensors {second:,}" in line for line in lines)
    else:
        assert lines[0].split()[-1] == "%"


def test_columns_stand_closer_before_anything_is_cut() -> None:
    table = FittedTable.of("file", "bytes")
    table.add("models/a.pt", 1234)
    at = {
        width: ["".join(text for text, _ in line) for line in table.lines(width)][-1]
        for width in (20, 18, 17)
    }
    assert at == {20: "models/a.pt   1,234", 18: "models/a.pt  1,234", 17: "  bytes 1,234"}


CELLS = st.one_of(st.text(max_size=5), st.text("ab模é\u0301\n", max_size=5).map(Bold))


@given(st.lists(st.tuples(CELLS, st.integers(0, LARGE), CELLS, st.sampled_from(["", "dim"])), min_size=1))
def test_where_all_fit_each_cell_is_as_wide_as_its_column(
    rows: list[tuple[str, int, str, str]],
) -> None:
    table = FittedTable([("before", "text"), ("number", "number"), ("after", "text")])
    for before, number, after, style in rows:
        table.add(before, number, after, style=style)
    columns = zip(*(cells for cells, _ in table.texts), strict=True)
    headed = zip([heading for heading, _ in table.columns], columns, strict=True)
    widths = [max(map(cell_len, [heading, *column])) for heading, column in headed]
    _, _, *lines = table.lines(1_000)
    for (cells, style), line in zip(table.texts, lines, strict=True):
        blanks = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        padded = [cells[0] + blanks[0], blanks[1] + cells[1], cells[2] + blanks[2]]
        assert [text for text, _ in line] == [padded[0], " " * GAP, padded[1], " " * GAP, padded[2]]
        assert [way for _, way in line][::2] == [
            "bold" if isinstance(cell, Bold) else style for cell in cells
        ]
