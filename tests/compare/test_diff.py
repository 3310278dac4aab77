"""``archive.diff``: known edits are named, and nothing else is said to differ."""

from __future__ import annotations

import importlib.util
import io
import pickletools
import re
import struct
import sys
import warnings
from typing import TYPE_CHECKING
from unittest import mock

import pytest
import torch

import archive
from archive import Diff, Level, TensorChange, TextChange
from archive.compare.alignment import differing, unified
from archive.compare.pairing import plain
from archive.container.write import member_from
from tests.support.corpus import FIXTURES, RELEASES
from tests.support.tampering import MODELS, packed, tampered, without

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive import Change

NEW = RELEASES / "torch-2.13.0"
NESTED = NEW / "nested.pt"
SHOP = FIXTURES / "exported" / "shop.pt2"


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def of_level(diff: Diff, level: Level) -> list[Change]:
    return [change for change in diff.changes if change.level is level]


def model_of(old: object, new: object) -> list[str]:
    diff = archive.diff(old, new)  # type: ignore[arg-type]
    return [f"{one.what} {one.name} {one.status}" for one in of_level(diff, Level.MODEL)]


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def test_a_file_is_identical_to_itself() -> None:
    found = archive.diff(NESTED, NESTED.read_bytes())
    assert (found.identical, found.same_model, found.changes) == (True, True, ())


@pytest.mark.parametrize("key", [True, 1.0])
def test_a_key_of_another_type_is_another_key(key: object) -> None:
    old, new = ({"at": {one: "x"}} for one in (1, key))
    assert not archive.diff(saved(old), saved(new)).same_model
    assert str(archive.digest(saved(old))) != str(archive.digest(saved(new)))


def test_one_bit_of_a_weight_is_told_with_its_size() -> None:
    found = archive.diff(NESTED, tampered(NESTED, {"data/0": flipped}))
    (change,) = of_level(found, Level.MODEL)
    assert isinstance(change, TensorChange)
    with archive.open(NESTED) as opened:
        (before,) = struct.unpack("<f", bytes(opened.records["data/0"].view())[:4])
        (after,) = struct.unpack("<f", flipped(bytes(opened.records["data/0"].view()))[:4])
    assert (change.name, change.changed, change.bits, change.count) == ("first.w", 1, 1, 12)
    assert change.max_abs == abs(after - before)
    assert change.max_rel == abs(after - before) / max(abs(after), abs(before))
    assert not found.same_model


def test_a_constant_in_the_module_tree_is_told_by_its_path() -> None:
    half, quarter = (b"G" + struct.pack(">d", number) for number in (0.5, 0.25))
    found = archive.diff(NESTED, tampered(NESTED, {"data.pkl": lambda data: data.replace(half, quarter)}))
    (change,) = of_level(found, Level.MODEL)
    assert (change.what, change.name, change.old, change.new) == ("attribute", "scale", "0.5", "0.25")


def written(folder: Path, source: str) -> bytes:
    """A scripted model of some source, in a file of one name in any folder."""
    folder.mkdir()
    file = folder / "written.py"
    file.write_text(f"import torch\n\n\nclass Net(torch.nn.Module):\n{source}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("written", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, written=module):
        spec.loader.exec_module(module)
        out = io.BytesIO()
        torch.jit.save(torch.jit.script(module.Net()), out)
    return out.getvalue()


FORWARD = """
    def forward(self, x):
        y = x + 1  # one more
        return y * 2
"""


def test_one_line_of_source_is_shown_with_its_place(tmp_path: Path) -> None:
    old, new = written(tmp_path / "a", FORWARD), written(tmp_path / "b", FORWARD.replace("* 2", "* 3"))
    (change,) = of_level(archive.diff(old, new), Level.MODEL)
    assert isinstance(change, TextChange)
    assert (change.what, change.of) == ("method", "source")
    assert plain(change.name) == "__torch__.written.Net.forward"
    assert change.lines[0] == "@@ -6,4 +6,4 @@"
    edits = [line[0] + line[1:].strip() for line in change.lines if line[0] in "+-"]
    assert edits == ["-return y * 2", "+return y * 3"]
    assert f"{tmp_path}/b/written.py:6" in change.new


def test_a_comment_is_a_difference_of_debug_info(tmp_path: Path) -> None:
    old, new = written(tmp_path / "a", FORWARD), written(tmp_path / "b", FORWARD.replace("one more", "two"))
    found = archive.diff(old, new)
    assert found.same_model
    (change,) = (one for one in of_level(found, Level.DEBUG) if isinstance(one, TextChange))
    assert (change.added, change.gone) == (1, 1)


def test_a_function_that_moved_is_told_with_both_places(tmp_path: Path) -> None:
    old, new = written(tmp_path / "a", FORWARD), written(tmp_path / "b", f"\n\n{FORWARD}")
    found = archive.diff(old, new)
    assert found.same_model
    (change,) = (one for one in found.changes if one.what == "place of source")
    assert (change.old, change.new) == (f"{tmp_path}/a/written.py:6", f"{tmp_path}/b/written.py:8")


def test_one_operator_is_told_in_generated_code_where_the_source_is_the_same() -> None:
    found = archive.diff(
        NESTED, tampered(NESTED, {MODELS: lambda data: data.replace(b"torch.mul", b"torch.sub", 1)})
    )
    (change,) = of_level(found, Level.MODEL)
    assert isinstance(change, TextChange)
    assert (change.of, change.added, change.gone) == ("generated code", 1, 1)
    assert change.new == "the source is the same"


def test_one_operator_of_bytecode_is_told_by_method() -> None:
    old = NEW / "nested.ptl"
    found = archive.diff(
        old, tampered(old, {"bytecode.pkl": lambda data: data.replace(b"aten::mul", b"aten::sub")})
    )
    methods = [one for one in of_level(found, Level.MODEL) if one.what == "bytecode"]
    assert methods
    assert all(isinstance(one, TextChange) and one.of == "instructions" for one in methods)
    lines = [line for one in methods if isinstance(one, TextChange) for line in one.lines]
    assert any(line.startswith("-OP aten::mul") for line in lines)
    assert any(line.startswith("+OP aten::sub") for line in lines)


def test_a_constant_that_no_instruction_loads_counts(tmp_path: Path) -> None:
    class Default(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.add(x, x, alpha=1)  # without its default, 1: aten::add of two arguments

    path = tmp_path / "default.ptl"
    torch.jit.script(Default())._save_for_lite_interpreter(str(path))
    other = tampered(path, {"bytecode.pkl": lambda data: re.sub(rb"(?s)(?<=constantsq.K)\x01", b"\2", data)})
    (change,) = of_level(archive.diff(path, other), Level.MODEL)
    assert isinstance(change, TextChange)
    assert [line for line in change.lines if line.startswith(("-", "+"))] == [
        "-constants, not named: 1",
        "+constants, not named: 2",
    ]
    assert archive.digest(path).value != archive.digest(other).value


def test_a_renamed_class_is_one_and_its_methods_are_the_same() -> None:
    def rename(data: bytes) -> bytes:
        return data.replace(b"Stack", b"Tower")

    changes: dict[str, Callable[[bytes], bytes]] = {MODELS: rename, "data.pkl": rename}
    assert model_of(NESTED, tampered(NESTED, changes)) == ["class __torch__.models.Tower renamed"]


def test_a_renamed_method_is_told_with_its_old_name() -> None:
    edited = tampered(NESTED, {MODELS: lambda data: data.replace(b"def pair(", b"def couple(")})
    (change,) = of_level(archive.diff(NESTED, edited), Level.MODEL)
    assert (change.status, change.name) == ("renamed", "__torch__.models.Stack.couple")
    assert change.old == "__torch__.models.Stack.pair"


def test_debug_info_alone_is_no_difference_of_the_model() -> None:
    found = archive.diff(NESTED, without(NESTED, lambda name: name.endswith(".debug_pkl")))
    assert found.same_model
    assert {one.what for one in of_level(found, Level.DEBUG)} == {"source ranges"}
    rest = archive.diff(NESTED, without(NESTED, lambda name: name.endswith(".debug_pkl")), ignore=["debug"])
    assert of_level(rest, Level.DEBUG) == []


def test_layout_alone_is_no_difference_of_the_model() -> None:
    with archive.open(NESTED) as opened:
        members = [member_from(one) for one in opened.container.records.values()]
    found = archive.diff(NESTED, packed(members[::-1], "other"))
    assert found.same_model
    assert {one.level for one in found.changes} == {Level.LAYOUT}
    assert {one.name for one in found.changes} >= {"folder of all records", "order of records"}
    assert archive.diff(NESTED, packed(members[::-1], "other"), ignore=["layout"]).changes == ()


def test_the_layout_of_debug_records_is_layout() -> None:
    found = archive.diff(NESTED, NEW / "nested-nostringtable.pt", ignore=["ids"])
    assert found.same_model
    assert {one.level for one in found.changes} == {Level.LAYOUT}


def test_a_record_that_says_the_same_in_other_bytes_is_told() -> None:
    optimised = {"data.pkl": lambda data: pickletools.optimize(bytes(data))}
    for file in (NESTED.read_bytes(), saved({"a": [1, (2, "b")], "w": torch.ones(2)})):
        other = tampered(file, optimised)
        diff = archive.diff(file, other, ignore=["ids"])  # checkpoints' ids are of their bytes
        assert [
            f"{change.what} {change.name}: {change.in_words}" for change in of_level(diff, Level.LAYOUT)
        ] == ["record data.pkl: the same → written otherwise"]
        assert diff.same_model
        assert archive.diff(file, other, ignore=["ids", "layout"]).changes == ()


@pytest.mark.parametrize("release", ["1.10.0", "1.13.0", "2.1.0", "2.4.1"])
def test_other_releases_save_the_same_model(release: str) -> None:
    assert archive.diff(RELEASES / f"torch-{release}" / "nested.pt", NESTED).same_model


def test_an_archive_and_its_lite_one_are_compared_in_what_both_have() -> None:
    found = archive.diff(NESTED, NEW / "nested.ptl")
    assert of_level(found, Level.MODEL) == []
    assert not found.same_model
    assert [one.partition(":")[0] for one in found.unchecked] == ["instructions"]


def test_a_split_archive_is_the_same_model_without_debug_info(tmp_path: Path) -> None:
    small = io.BytesIO()
    archive.split(NEW / "nested.ptl", small, f"{tmp_path}/m.ptdbg")
    found = archive.diff(NEW / "nested.ptl", small.getvalue())
    assert found.same_model
    assert of_level(found, Level.DEBUG)


def test_a_migrated_archive_is_the_same_model(tmp_path: Path) -> None:
    archive.migrate(NEW / "nested.pt", f"{tmp_path}/old.pt", to="1.10")
    assert archive.diff(NESTED, f"{tmp_path}/old.pt").same_model


# Checkpoints


def test_what_changed_between_two_checkpoints_is_told() -> None:
    before = {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor([3]), "same": torch.ones(9), "epoch": 1}
    after = {**before, "w": torch.tensor([1.0, 4.0]), "n": torch.tensor([-4]), "epoch": 2}
    found = of_level(archive.diff(saved(before), saved(after)), Level.MODEL)
    bits = (3 ^ -4 & (1 << 64) - 1).bit_count()
    assert [(one.name, one.in_words) for one in found] == [
        ("w", "1 of 2 elements differ, 1 bit; max abs 2, max rel 0.5"),
        (
            "n",
            f"1 of 1 elements differ, {bits} bits; max abs 7, max rel 1.75",
        ),
        ("epoch", "1 → 2"),
    ]


def test_a_checkpoint_is_compared_with_a_scripted_model() -> None:
    saved, scripted = FIXTURES / "training" / "epoch1.pt", RELEASES / "torch-2.13.0" / "nested.pt"
    for old, new in ((saved, scripted), (scripted, saved)):
        found = archive.diff(old, new)
        assert not found.same_model
        assert any("objects of Python" in part for part in found.unchecked)


def test_dtype_and_shape_are_told() -> None:
    before, after = (
        {"a": torch.ones(2), "b": torch.ones(4)},
        {"a": torch.ones(2).half(), "b": torch.ones(2, 2)},
    )
    found = of_level(archive.diff(saved(before), saved(after)), Level.MODEL)
    assert [one.in_words for one in found] == ["float32 [2] → float16 [2]", "float32 [4] → float32 [2, 2]"]


def test_a_tensor_of_another_name_is_renamed() -> None:
    assert model_of(saved({"a": torch.arange(9)}), saved({"b": torch.arange(9)})) == ["tensor b renamed"]
    assert model_of(saved({"a": torch.arange(9)}), saved({"b": -torch.arange(9)})) == [
        "tensor a gone",
        "tensor b added",
    ]


def test_storages_that_are_no_longer_shared_are_told() -> None:
    tied = torch.ones(3)
    found = of_level(archive.diff(saved([tied, tied]), saved([tied, tied.clone()])), Level.MODEL)
    assert [(one.name, one.in_words) for one in found] == [("1", "shared with 0 → a storage of its own")]


def test_strides_that_only_the_file_has_are_no_difference() -> None:
    big = torch.arange(100.0)
    assert archive.diff(saved({"w": big[10:20]}), saved({"w": big[10:20].clone()})).same_model


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.complex64]
)
def test_the_largest_difference_is_pytorchs(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    before = (torch.randn(4000) * 30).to(dtype)
    after = before.clone()
    after[::7] += 3
    (change,) = of_level(archive.diff(saved([before]), saved([after])), Level.MODEL)
    assert isinstance(change, TensorChange)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    apart = (after.to(wide) - before.to(wide)).abs()
    assert change.max_abs == apart.max().item()
    assert change.changed == int((before != after).sum())


def test_nan_and_signed_zero_are_told_apart() -> None:
    before, after = torch.tensor([0.0, 1.0, float("nan")]), torch.tensor([-0.0, float("nan"), float("nan")])
    (change,) = of_level(archive.diff(saved([before]), saved([after])), Level.MODEL)
    assert isinstance(change, TensorChange)
    assert (change.changed, change.unordered, change.max_abs) == (2, 1, 0.0)
    assert archive.diff(saved([0.0]), saved([-0.0])).changes[0].in_words == "0.0 → -0.0"


class Quantised(torch.nn.Module):
    """A module with quantised tensors, and perhaps another before them."""

    def __init__(self, *, first: bool, scale: float = 0.5) -> None:
        super().__init__()
        if first:
            self.register_buffer("first", torch.ones(5))
        scales, zeros = torch.tensor([scale, 0.25]), torch.zeros(2, dtype=torch.long)
        self.register_buffer(
            "each", torch.quantize_per_channel(torch.zeros(2, 2), scales, zeros, 0, torch.qint8)
        )
        self.register_buffer("one", torch.quantize_per_tensor(torch.zeros(3), scale, 0, torch.qint8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.one.dequantize()


def quantised(folder: Path, *, first: bool = False, scale: float = 0.5) -> Path:
    path = folder / f"{first}{scale}.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Quantised(first=first, scale=scale)).save(path)
    return path


def test_a_quantised_tensor_of_a_script_is_told_as_a_tensor_alone(tmp_path: Path) -> None:
    plain = quantised(tmp_path)
    tensors = [row for row in model_of(plain, quantised(tmp_path, first=True)) if "class" not in row]
    assert tensors == ["tensor first added"]  # PyTorch numbers the storages of the others anew
    assert sorted(model_of(plain, quantised(tmp_path, scale=0.125))) == [
        "tensor each.q_per_channel_scales changed",
        "tensor one changed",
    ]


def test_the_device_of_a_quantised_tensor_is_layout(tmp_path: Path) -> None:
    path = quantised(tmp_path)
    moved = tampered(path, {"data.pkl": lambda data: data.replace(b"\x03\0\0\0cpu", b"\x03\0\0\0xpu")})
    found = archive.diff(path, moved)
    assert found.same_model
    assert [row.name for row in of_level(found, Level.LAYOUT) if row.what == "attribute"] == [
        *("each", "each.q_per_channel_scales", "each.q_per_channel_zero_points", "one"),
    ]
    assert archive.digest(path).value == archive.digest(moved).value


def test_another_device_is_told() -> None:
    edited = tampered(NESTED, {"data.pkl": lambda data: data.replace(b"X\x03\0\0\0cpu", b"X\x03\0\0\0gpu")})
    diff = archive.diff(NESTED, edited)
    told = [one.in_words for one in of_level(diff, Level.LAYOUT) if one.what == "attribute"]
    assert told
    assert set(told) == {"on cpu → on gpu"}
    assert diff.same_model
    file = saved([torch.ones(2)])
    edited = tampered(file, {"data.pkl": lambda data: data.replace(b"X\x03\0\0\0cpu", b"X\x03\0\0\0gpu")})
    diff = archive.diff(file, edited)
    assert [one.in_words for one in of_level(diff, Level.LAYOUT)] == ["on cpu → on gpu"]
    assert diff.same_model


# Programs


def test_a_node_with_another_target_is_told_with_its_line() -> None:
    edited = tampered(
        SHOP, {"models/model.json": lambda data: data.replace(b"aten.relu.default", b"aten.silu.default", 1)}
    )
    (change,) = of_level(archive.diff(SHOP, edited), Level.MODEL)
    assert (change.what, change.status) == ("node", "changed")
    assert change.old.startswith("aten.relu.default(")
    assert change.new.startswith("aten.silu.default(")
    assert " at " in change.new


def test_the_metadata_of_nodes_is_debug_info() -> None:
    edited = tampered(SHOP, {"models/model.json": lambda data: data.replace(b"models/", b"elsewhere/")})
    found = archive.diff(SHOP, edited)
    assert found.same_model
    assert [one.what for one in of_level(found, Level.DEBUG)] == ["metadata"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"kind": 1', b'"kind": true'),
        (b'"as_tensor": {"name": "first"}}', b'"as_tensor": {"name": "second"}}'),
    ],
)
def test_another_kind_of_number_or_another_input_is_a_difference(old: bytes, new: bytes) -> None:
    edited = tampered(SHOP, {"models/model.json": lambda data: data.replace(old, new, 1)})
    assert not archive.diff(SHOP, edited).same_model


# Lines


def test_lines_are_found_in_long_texts_in_little_time() -> None:
    was = [f"line {number}" for number in range(100_000)]
    now = [*was[:50_000], "new", *was[50_001:]]
    assert differing(was, now) == [(50_000, 50_001, 50_000, 50_001)]


def test_repeated_lines_cost_no_more_than_their_number() -> None:
    was, now = ["a", "b"] * 50_000, ["b", "a", "a"] * 33_000
    blocks = differing(was, now)
    assert sum(block.old_end - block.old for block in blocks) <= len(was)


@pytest.mark.parametrize(
    ("old", "new"), [("a\nb\nc", "a\nc"), ("", "a"), ("x\ny", "y\nx"), ("a\n" * 9, "a\n" * 7)]
)
def test_a_unified_difference_leads_from_one_text_to_the_other(old: str, new: str) -> None:
    was, now = old.split("\n"), new.split("\n")
    built, at = list[str](), 0
    for block in differing(was, now):
        built += [*was[at : block.old], *now[block.new : block.new_end]]
        at = block.old_end
    assert [*built, *was[at:]] == now
    found = unified(old, new)
    assert found.added - found.gone == len(now) - len(was)
