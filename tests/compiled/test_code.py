"""C++ code that AOTInductor wrote: which lines call, define and name which kernel."""

from __future__ import annotations

import platform
import sys
from subprocess import run
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.limits import DEFAULT_LIMITS
from archive.failures.explainer import explain
from archive.formats.compiled.code import CppCode
from tests.support.compiled import COMPILED, NAMES, package, written
from tests.support.sampling import whole_suite

if TYPE_CHECKING:
    from pathlib import Path

ALLOCATED = b"    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_new_uninitialized_tensor(&buf2_handle));\n"
PROXY = b"    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_proxy_executor_call_function(proxy_executor, 0, 0));\n"


def code(text: bytes) -> CppCode:
    return CppCode(memoryview(text), DEFAULT_LIMITS.allowance(1 << 20))


def handle(key: bytes) -> bytes:
    return b"    // [Provenance debug handles] %b\n" % key


@pytest.mark.parametrize("name", NAMES)
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
            assert shown == (set(defined) if name == "profiled" else set())


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
