"""Compiled models as ``archive.open`` and commands show them: kernels, C++ code, tensors."""

from __future__ import annotations

import io
import json
import platform
import struct
import sys
import zipfile
from subprocess import run
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import archive
from archive import ArchiveError, Limits
from archive.failures.explainer import explain
from archive.formats.compiled.code import CppCode
from archive.formats.elf.weights import weights_span
from archive.formats.tensors.compiled import compiled_constants
from archive.reader.lookups.kernels import WITHOUT_RECORD, found_kernels
from tests.support.commands import called, told, well
from tests.support.exported import COMPILED, PACKAGES, changed_package, member, package, written
from tests.support.sampling import whole_suite

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = "data/aotinductor/model/kernel_information.json"
RELU = "mixer:cpp_fused__softmax_add_embedding_mul_relu_sub_1:4"


@pytest.mark.parametrize("name", PACKAGES)
def test_kernels_are_those_of_the_json(name: str) -> None:
    with archive.open(package(name)) as opened, zipfile.ZipFile(io.BytesIO(package(name))) as expected:
        for model in opened.compiled.values():
            file = f"{name}/data/aotinductor/{model.name}/kernel_information.json"
            tree = json.loads(expected.read(file)) if file in expected.namelist() else {}
            assert model.has_kernels == (file in expected.namelist()) == (name != "plain")
            assert list(model.kernels) == list(tree)
            for key, kernel in model.kernels.items():
                facts = {one: list(getattr(kernel, one)) for one in tree[key]}
                assert (kernel.key, facts) == (key, tree[key])
                assert all(trace is not None for trace in kernel.traces)


def test_models_are_read_by_name() -> None:
    with archive.open(package("several")) as opened:
        assert list(opened.compiled) == ["mixer", "tower"]
        assert list(opened.programs) == ["tower"]
        tower = opened.compiled["tower"]
        assert tower.metadata["AOTI_CPU_ISA"] == "AVX2"
        assert (tower.objects, len(tower.sources)) == ((), 1)
        (trace,) = opened.kernels["tower:cpp_fused_add_relu_2:9"].traces
        assert trace is not None
        assert [(frame.file, frame.line) for frame in trace.frames] == [("models/mixer.py", 38)]
    with archive.open(package("compiled")) as opened:
        assert list(opened.kernels)[1] == "aoti_torch_cpu_addmm_out:2"
        (file,) = opened.compiled["model"].objects
        assert bytes(opened.compiled["model"].view(file)[:4]) == b"\x7fELF"


def test_other_archives_have_no_compiled_models(tmp_path: Path) -> None:
    path = written("sources", tmp_path)
    without = tmp_path / "without.pt2"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(without, "w") as target:
        for name in source.namelist():
            target.writestr(name.replace("aotinductor", "else"), source.read(name))
    with archive.open(without) as opened:
        assert (dict(opened.compiled), dict(opened.kernels)) == ({}, {})


def test_inspect_shows_models_kernels_code_and_objects(tmp_path: Path) -> None:
    facts: Any = told("inspect", written("compiled", tmp_path))
    assert facts["compiled"] == {
        "model": {
            "target": "cpu linux x86_64 AVX2",
            "has_kernels": True,
            "kernels": 6,
            "traced": 5,
            "code_bytes": sum(len(member("compiled", file)) for file in facts["records"] if ".cpp" in file),
            "object_bytes": 1_516_584,
            "mapped_bytes": 300_361,
        }
    }
    kinds = [record["kind"] for record in facts["records"].values()][:6]
    assert kinds == [
        *("C++ code", "C++ code", "compiled model", "compiled model", "shared object", "kernel information")
    ]
    several = well("inspect", written("several", tmp_path))
    rows = [line.split() for line in several.splitlines() if line.startswith(("tower", "mixer", "program"))]
    assert [row[0] for row in rows] == ["program", "tower", "mixer", "tower"]
    assert rows[-1][1:] == ["cpu", "linux", "x86_64", "AVX2", "9", "8", "50,072"]
    assert "AVX2                   " in well("inspect", written("plain", tmp_path))


def test_inspect_says_what_is_broken_and_shows_the_rest(tmp_path: Path) -> None:
    shared = next(name for name in _names("compiled") if name.endswith(".so"))
    shown = well("inspect", changed_package("compiled", {shared: b"\x7fELF" + bytes(60)}, tmp_path))
    assert shown.splitlines()[2].startswith(
        f"its models are not known: {shared}, byte 4: expected 1 (32 bits)"
    )
    assert shared in shown.splitlines()[-7]
    foreign = changed_package("compiled", {shared: b"\xcf\xfa\xed\xfe" + bytes(60)}, tmp_path)
    told_of: Any = told("inspect", foreign)
    assert told_of["compiled"]["model"]["mapped_bytes"] is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "expected an object, found a list"),
        (b'{"relu": {}}', "relu: expected a kernel's name and its handle, found 'relu'"),
        (b'{"relu:02": {}}', "relu:02: expected a kernel's name and its handle, found 'relu:02'"),
        (b'{"relu:2": []}', "relu:2: expected an object, found a list"),
        (b'{"relu:2": {"stack_traces": [1]}}', "relu:2.stack_traces[0]: expected a text, found a number"),
        (b'{"relu:2": {"stack_traces": []}}', "relu:2: expected a field pre_grad_nodes, found none"),
        (b"{", "character 1: expected JSON, found Expecting property name enclosed in double quotes"),
    ],
)
def test_broken_kernel_information_is_told_with_its_place(content: bytes, said: str, tmp_path: Path) -> None:
    path = changed_package("sources", {KERNELS: content}, tmp_path)
    with archive.open(path) as opened, pytest.raises(ArchiveError) as caught:
        opened.kernels  # noqa: B018 (read when asked for)
    assert str(caught.value).removeprefix(f"{path}: {KERNELS}").lstrip(",: ") == said


def test_large_records_cost_no_more_memory_than_allowed(tmp_path: Path) -> None:
    (code,) = (name for name in _names("sources") if name.endswith(".cpp"))
    calls = b"    // [Provenance debug handles] f:1\n    AOTI_TORCH_ERROR_CODE_CHECK(f());\n" * 100_000
    path = changed_package("sources", {code: calls}, tmp_path)
    with archive.open(path, limits=Limits(memory=1 << 20)) as opened:
        model = opened.compiled["model"]
        with pytest.raises(ArchiveError, match="lines of C\\+\\+ code"):
            model.code(model.sources[0])


# --- symbolicate


def test_a_kernel_is_shown_by_name_and_handle(tmp_path: Path) -> None:
    path = written("compiled", tmp_path)
    assert well("symbolicate", path, "aoti_torch_cpu_addmm_out:3") == (
        "Kernel aoti_torch_cpu_addmm_out:3, of linear_1\n"
        "Original traceback:\n"
        'File "models/mixer.py", line 21, in forward\n'
        "    b = self.warm(right)\n"
        '  File "/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n'
        "    return F.linear(input, self.weight, self.bias)\n"
    )


def test_a_name_stands_for_all_places_that_call_the_kernel(tmp_path: Path) -> None:
    path = written("several", tmp_path)
    shown = well("symbolicate", path, "cpp_fused_add_relu_2").splitlines()
    assert [line for line in shown if line.startswith("Kernel")] == [
        f"Kernel tower:cpp_fused_add_relu_2:{handle}, of {nodes}"
        for handle, nodes in ((5, "add_1, relu_1"), (7, "add_2, relu_2"), (9, "add_3, relu_3"))
    ]
    facts: Any = told("symbolicate", path, "tower:linear", "mixer:aoti_torch_cpu_cumsum:5")
    assert [one["node"] for one in facts["symbolications"]] == ["linear"]
    (kernel,) = facts["kernels"]
    assert (kernel["model"], kernel["kernel"], kernel["handle"]) == ("mixer", "aoti_torch_cpu_cumsum", 5)
    assert [[frame["line"] for frame in one["frames"]] for one in kernel["tracebacks"]] == [[22]]
    assert kernel["found"]
    assert kernel["text"] == well("symbolicate", path, "mixer:aoti_torch_cpu_cumsum:5").removesuffix("\n")


def test_names_of_the_profiler_are_those_that_the_code_gives_itself(tmp_path: Path) -> None:
    shown = well("symbolicate", written("profiled", tmp_path), "graph_2_cpp_fused__softmax_sum_2")
    assert shown.startswith("Kernel cpp_fused__softmax_sum_2:6, of sum_1, softmax\n")
    for name, kernel in (
        ("profiled", "graph_3_cpp_fused__softmax_sum_2"),
        ("compiled", "graph_2_cpp_fused_0"),
    ):
        assert called("symbolicate", written(name, tmp_path), kernel).exit_code == 1


def test_what_has_no_source_is_told(tmp_path: Path) -> None:
    path = written("several", tmp_path)
    done = called("symbolicate", path, "mixer:cpp_fused_0:1")
    assert (done.exit_code, done.stdout) == (
        1,
        "Kernel mixer:cpp_fused_0:1, of mix_bias\nOriginal traceback:\nNone\n",
    )
    assert done.stderr == f"debug-archive: {path}: no source is recorded for mixer:cpp_fused_0:1\n"
    done = called("symbolicate", path, "mixer:cpp_fused_0:2")
    assert "no kernel 'mixer:cpp_fused_0:2'; there are mixer:cpp_fused_0:1, " in done.stderr
    plain = written("plain", tmp_path)
    done = called("symbolicate", plain, "cpp_fused_0")
    why = f"no kernel 'cpp_fused_0' is recorded: {WITHOUT_RECORD}"
    assert (done.exit_code, done.stderr) == (1, f"debug-archive: {plain}: {why}\n")


def _names(name: str) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(package(name))) as opened:
        return [one.partition("/")[2] for one in opened.namelist()]


def test_models_whose_names_have_colons_or_are_those_of_kernels_are_found(tmp_path: Path) -> None:
    path = tmp_path / "named.pt2"
    names = {"/mixer/": "/a:b/", "/tower/": "/cpp_fused_add_relu_1/"}
    with zipfile.ZipFile(io.BytesIO(package("several"))) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            folder = next((one for one in names if f"aotinductor{one}" in name), "")
            target.writestr(name.replace(folder, names[folder]) if folder else name, source.read(name))
    with archive.open(path) as opened:
        assert list(opened.compiled) == ["a:b", "cpp_fused_add_relu_1"]
        for key, kernel in opened.kernels.items():
            assert [(one.label, one.kernel) for one in found_kernels(opened.compiled, key)] == [(key, kernel)]
        assert [one.label for one in found_kernels(opened.compiled, "cpp_fused_add_relu_1:3")] == [
            "cpp_fused_add_relu_1:cpp_fused_add_relu_1:3"
        ]


# --- C++ code that AOTInductor wrote: which lines call, define and name which kernel


ALLOCATED = b"    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_new_uninitialized_tensor(&buf2_handle));\n"
PROXY = b"    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_proxy_executor_call_function(proxy_executor, 0, 0));\n"


def code(text: bytes) -> CppCode:
    return CppCode(memoryview(text))


def handle(key: bytes) -> bytes:
    return b"    // [Provenance debug handles] %b\n" % key


@pytest.mark.parametrize("name", PACKAGES)
def test_each_kernel_is_called_or_defined_once(name: str) -> None:
    with archive.open(package(name)) as opened:
        for model in opened.compiled.values():
            parts = [model.code(file) for file in model.sources]
            called = [call.key for part in parts for call in part.calls.values() if call.key]
            assert called == [key for key in model.kernels if key.startswith("aoti_torch_")]
            defined = [name for part in parts for name in part.functions]
            if model.has_kernels:
                assert set(defined) == {one for one in model.named if one.startswith("cpp_")}
            assert len(defined) == len(set(defined)) >= 3
            shown = {kernel for kernels in model.profiled.values() for kernel in kernels}
            operators = {key.partition(":")[0] for key in called}
            assert shown == ({*defined, *operators} if name == "profiled" else set())


def test_nodes_are_told_without_handles_too() -> None:
    with archive.open(package("plain")) as opened:
        model = opened.compiled["model"]
        calls = [call for file in model.sources for call in model.code(file).calls.values() if call.nodes]
    assert [call.nodes for call in calls] == ["linear", "linear_1", "relu, mul, embedding, add, cumsum"]
    assert {call.key for call in calls} == {""}


def test_a_handle_is_that_of_the_next_call_of_its_kernel() -> None:
    call = b"        AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf1, buf0));\n"
    text = handle(b"aoti_torch_cpu_mm_out:4") + ALLOCATED + call + call
    assert [one.key for one in code(text).calls.values()] == ["", "aoti_torch_cpu_mm_out:4", ""]


def test_a_comment_about_nodes_begins_another_call() -> None:
    call = b"    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf1, buf0));\n"
    text = (
        handle(b"aoti_torch_cpu_mm_out:4")
        + b"    // Topologically Sorted Source Nodes: [mm], Original\n"
        + call
    )
    assert [(one.key, one.nodes) for one in code(text).calls.values()] == [("", "mm")]


def test_operators_without_a_c_function_are_called_through_the_proxy() -> None:
    text = handle(b"aoti_torch_cpu_discount:2") + ALLOCATED + PROXY
    assert [(line, one.key) for line, one in code(text).calls.items()] == [
        (2, ""),
        (3, "aoti_torch_cpu_discount:2"),
    ]


def test_a_kernel_of_its_own_is_not_called_through_the_proxy() -> None:
    text = handle(b"cpp_fused_0:1") + b"    cpp_fused_0((float*)(buf0.data_ptr()));\n" + PROXY
    assert [one.key for one in code(text).calls.values()] == [""]
    assert [one.key for one in code(handle(b"triton_poi_0:1") + PROXY).calls.values()] == [""]


def test_a_handle_ends_with_its_function() -> None:
    call = b"    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf1, buf0));\n"
    text = handle(b"aoti_torch_cpu_mm_out:4") + b"}\nvoid next() {\n" + call
    assert [one.key for one in code(text).calls.values()] == [""]


def test_what_is_declared_is_not_defined() -> None:
    head = b'extern "C"  void  cpp_fused_0(const float* in_ptr0,\n                       float* out_ptr0)'
    assert code(head + b";\nvoid other()\n{\n}\n").functions == {}
    defined = code(b"// first\n" + head + b"\n{\n    {\n    }\n}\n{\n}\n")
    assert defined.functions == {"cpp_fused_0": (2, 7)}
    assert [defined.has_line("cpp_fused_0", line) for line in (1, 2, 7, 8)] == [False, True, True, False]
    assert not defined.has_line("cpp_fused_1", 2)


@pytest.mark.torch
@whole_suite
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the package has code for x86-64")
def test_what_pytorch_prints_today_is_explained(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = written("profiled", tmp_path)
    program = (
        "import sys, torch, torch._inductor\n"
        f"model = torch._inductor.aoti_load_package({str(path)!r})\n"
        "x, wide, ids = torch.ones(3, 4), torch.ones(3, 7), torch.tensor([1, 2, 3])\n"
        "sys.stdout.write(str(model(x, x, ids)[1]))\n"
        "model(x, wide, ids)\n"
    )
    done = run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"tensor(3.)")
    frozen = (COMPILED / "profiled.right.txt").read_bytes().splitlines()[0]
    assert frozen in done.stderr.splitlines()
    with archive.open(path) as opened:
        out = b"".join(explain([done.stderr], opened))
    assert b"\nKernel aoti_torch_cpu_addmm_out:3, of linear_1\nOriginal traceback:\n" in out


# --- The tensors of compiled models: named by their C++ code, wherever their bytes lie


FOLDER = "data/aotinductor/model/"
PLAIN = "cr2vcpbnitlla5b6hms25eeehm2xvtjyrbsipg45cpheyglybotf.wrapper"
OBJECT, CODE = f"{FOLDER}{PLAIN}.so", f"{FOLDER}{PLAIN}.cpp"
ROWS = 64
"""Where the second tensor begins in the weights: behind 16 numbers of float32."""
END_ADDRESS, END_SECTION = 0x4C080, 27
"""Where the weights end in memory: `readelf -s`, `_binary_constants_bin_end`."""


def retrained(folder: Path, element: int) -> Path:
    """The package after a training that changed one element of ``rows.weight`` by 1."""
    data = bytearray(member("plain", OBJECT))
    span = weights_span(memoryview(data))
    assert span is not None
    np.frombuffer(data, "<f4", offset=span[0] + ROWS)[element] += 1
    return changed_package("plain", {OBJECT: bytes(data)}, folder)


def values(name: str) -> dict[str, bytes]:
    with archive.open(package(name)) as opened:
        return {each: b"".join(opened.tensors.elements(each)) for each in opened.tensors}


def test_a_compiled_model_has_the_tensors_of_its_program() -> None:
    found = values("several")
    compiled = {name.rpartition(":")[2]: data for name, data in found.items() if "aotinductor" in name}
    assert list(compiled) == ["layers.0.weight", "layers.1.weight"]  # biases became code
    assert compiled == {name: found[f"tower:{name}"] for name in compiled}


@pytest.mark.parametrize("name", ["compiled", "plain", "profiled", "sources"])
def test_tensors_are_named_as_in_the_model(name: str) -> None:
    with archive.open(package(name)) as opened:
        told = {each: (one.dtype, one.shape, one.strides) for each, one in opened.tensors.items()}
    assert told == {
        "mix.weight": ("float32", (4, 4), (4, 1)),
        "rows.weight": ("float32", (6, 4), (4, 1)),
    }
    assert not any(np.isnan(np.frombuffer(data, "<f4")).any() for data in values(name).values())


def test_two_trainings_differ_in_a_weight_that_is_named(tmp_path: Path) -> None:
    found = archive.diff(
        written("plain", tmp_path), retrained(tmp_path, 3), ignore=["ids", "layout", "debug"]
    )
    (row,) = found.changes
    assert isinstance(row, archive.TensorChange)
    assert (row.name, row.changed, row.count) == ("rows.weight", 1, 24)
    assert row.max_abs == pytest.approx(1, abs=1e-6)


def test_without_the_code_nothing_tells_which_weight(tmp_path: Path) -> None:
    files = [written("plain", tmp_path), retrained(tmp_path, 3)]
    left = [tmp_path / f"left{number}.pt2" for number in range(2)]
    for file, target in zip(files, left, strict=True):
        archive.split(file, target, tmp_path / f"{target.stem}.ptdbg")
    found = archive.diff(*left, ignore=["ids", "layout", "debug"])
    told = [(row.what, row.name, row.in_words) for row in found.changes]
    words = "192 bytes → 192 bytes; which tensors is not known"
    assert told == [("weights", OBJECT, words)]


def test_a_model_is_the_same_without_the_code_that_names_its_tensors(tmp_path: Path) -> None:
    whole, left = written("plain", tmp_path), tmp_path / "left.pt2"
    archive.split(whole, left, tmp_path / "left.ptdbg")
    assert archive.diff(whole, left).same_model
    assert archive.diff(left, whole).same_model
    other = archive.diff(left, retrained(tmp_path, 3), ignore=["ids", "layout", "debug"])
    assert [row.what for row in other.changes] == ["weights"]


def test_a_digest_tells_weights_from_code_with_debug_info_and_without(tmp_path: Path) -> None:
    old, new = written("plain", tmp_path), retrained(tmp_path, 3)
    parts = [archive.digest(file).parts for file in (old, new)]
    assert {name for name in parts[0] if parts[0][name] != parts[1][name]} == {f"weights/{OBJECT}"}
    archive.split(old, tmp_path / "left.pt2", tmp_path / "left.ptdbg")
    assert archive.digest(tmp_path / "left.pt2").parts == parts[0]


def test_other_code_is_told_beside_other_weights(tmp_path: Path) -> None:
    data = bytearray(member("plain", OBJECT))
    data[0x18600] ^= 1  # in .text
    found = archive.diff(
        written("plain", tmp_path), changed_package("plain", {OBJECT: bytes(data)}, tmp_path)
    )
    assert [row.name for row in found.changes if row.level == "model"] == [OBJECT]


def test_weights_may_be_appended_to_the_object() -> None:
    """The object of a small model, as PyTorch makes one of a large model."""
    data = bytearray(member("plain", OBJECT))
    span = weights_span(memoryview(data))
    assert span is not None
    weights, magic = bytes(range(200)), 77
    data[span[0] : span[0] + 16] = struct.pack("<QQ", len(weights) + 8, magic)
    told = struct.pack("<BBHQQ", 0x10, 0, END_SECTION, END_ADDRESS, 0)  # behind a name; `_end` is the first
    symbol = data.index(told, data.index(told) + 1)
    data[symbol + 4 : symbol + 12] = struct.pack("<Q", END_ADDRESS - (span[1] - span[0]) + 16)
    assert weights_span(memoryview(data)) == (span[0], span[0] + 16)
    data += bytes(-len(data) % 0x4000)
    start = len(data)
    data += weights + struct.pack("<Q", magic)
    assert weights_span(memoryview(data)) == (start, start + len(weights))


def test_weights_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    """What ``aot_inductor.package_constants_on_disk_format = "binary_blob"`` makes."""
    blob = np.arange(48, dtype="<f4").tobytes()
    file = changed_package("plain", {f"{FOLDER}{PLAIN}_weights.blob": blob}, tmp_path)
    with archive.open(file) as opened:
        assert b"".join(b"".join(opened.tensors.elements(name)) for name in opened.tensors) == blob[:160]
    archive.split(file, tmp_path / "left.pt2", tmp_path / "left.ptdbg")
    assert archive.digest(file).value == archive.digest(tmp_path / "left.pt2").value


@pytest.mark.parametrize("cut", [0, 4, 63, 64, 300, 900])
def test_what_is_no_object_has_no_weights(cut: int) -> None:
    data = member("sources", f"{FOLDER}c4tysgn6fbr6ckg5mfewvbnuafjy4zecddu4wgxqqp2ottscfzbx.weights.o")
    assert weights_span(memoryview(data)) == (0x40, 0x100)
    assert weights_span(memoryview(data[:cut])) is None


def test_a_damaged_object_has_weights_in_it_or_none() -> None:
    whole = member("sources", f"{FOLDER}c4tysgn6fbr6ckg5mfewvbnuafjy4zecddu4wgxqqp2ottscfzbx.weights.o")
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        start, end = weights_span(memoryview(data)) or (0, 0)
        assert 0 <= start <= end <= len(data)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"data_size = 128", b"data_size = 12800", "12,864 bytes of weights, as its code says, found 192"),
        (b"shape = {6, 4}", b"shape = {6, x}", r"constants_info_\[1\]"),
        (b"constants_info_[1].stride", b"constants_info_[1].strides", r"constants_info_\[1\]: .*stride"),
    ],
)
def test_code_that_contradicts_the_weights_is_told(tmp_path: Path, old: bytes, new: bytes, told: str) -> None:
    code = member("plain", CODE)
    assert code.count(old) == 1
    file = changed_package("plain", {CODE: code.replace(old, new)}, tmp_path)
    with archive.open(file) as opened, pytest.raises(ArchiveError, match=told):
        list(opened.tensors)


def test_folded_constants_have_no_bytes() -> None:
    code = member("plain", CODE).replace(b"[0].from_folded = false", b"[0].from_folded = true")
    found = list(compiled_constants(memoryview(code)))
    assert [(one.name, one.start, one.size) for one in found] == [("rows.weight", 0, 128)]
