r"""C++ code that AOTInductor wrote: which of its lines call or define which kernel.

The wrapper calls kernels in sequence. A comment names the handle of the next call; one above it names
the nodes of the exported program, whether or not there are handles::

    // Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
    // [Provenance debug handles] aoti_torch_cpu_addmm_out:2
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_addmm_out(buf1, buf0, arg4_1, …, 1L, 1L));

Between comment and call may be other calls, which allocate memory. An operator without a C function in
PyTorch is called by its number, through ``aoti_torch_proxy_executor_call_function``.

Kernels are separate functions, in another record or in the same one. If the model was compiled to be
profiled, each one names itself::

    extern "C"  void  cpp_fused_0(float* out_ptr0)
    {
        torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_1_cpp_fused_0_("graph_1_cpp_fused_0", nullptr);

In a branch of ``cond``, and wherever else its graph has no number, a kernel names itself ``cpp_fused_0``. The
wrapper names each operator's C function before calling it::

    RAIIAtenRecordFunctionHandle record_aoti_torch_cpu_addmm_out_("aoti_torch_cpu_addmm_out", nullptr);

Source: ``torch/_inductor/codegen/cpp_wrapper_cpu.py``, ``wrapper.py`` and ``cpp.py`` of PyTorch 2.13.
"""  # noqa: E501 (a line of code as it is)

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.strings import decoded
from archive.debuginfo.frames import FRAME_IN_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator


CALLS = re.compile(rb"^(?:[ \t]*(?:// |\w+\()|\}).*", re.MULTILINE)
"""Lines that may matter to calls: comments, calls, ends of functions."""
FUNCTIONS = re.compile(rb"^(?:[^ \n]| +(?:\w+::)*RAIIAtenRecordFunctionHandle ).*", re.MULTILINE)
"""The same for kernels: lines that are not indented, and names for the profiler."""
HANDLE = re.compile(rb"\s*// \[Provenance debug handles\] (?P<key>.+:[0-9]{1,9})\s*")
NODES = re.compile(rb"\s*// Topologically Sorted Source Nodes: \[(?P<nodes>[^\]]*)\].*")
CHECKED = re.compile(rb"\s*AOTI_TORCH_ERROR_CODE_CHECK\((?P<call>(?P<name>\w+)\(.*\))\);\s*")
CALLED = re.compile(rb"\s*(?P<name>\w+)\(.*\);\s*")
DEFINED = re.compile(rb'extern "C"\s+void\s+(?P<name>\w+)\(.*')
RECORDED = re.compile(rb'\s*(?:\w+::)*RAIIAtenRecordFunctionHandle \w+\("(?P<name>\w+)",')
PROXY = b"aoti_torch_proxy_executor_call_function"
OPERATOR = re.compile(rb"aoti_torch_(?:cpu|cuda|mps|xpu)_\w+")
"""C functions of operators; others allocate memory or query properties."""
UNREAD = re.compile(rb"(?m)^[ \t]*//.*$|^ *" + FRAME_IN_TEXT.pattern)
"""Lines that no compiler needs: comments, and frames of the stack traces that a kernel is run with."""
BYTES_A_BYTE = 16
"""Bytes of memory that a byte of code takes at most: a call in a line of 35 bytes takes some 300."""


def without_comments(code: bytes) -> bytes:
    """Code without its comments and stack traces; their lines are empty."""
    return UNREAD.sub(lambda match: b"\n" * match[0].count(b"\n"), code)


class CheckedCall(NamedTuple):
    """A call whose failure PyTorch reports by its line.

    Attributes:
        text: the call, as the failure shows it.
        key: of the kernel that is called here; "" if no kernel is, or if no handle is known.
        nodes: the names of the nodes that it was made from, as the comment has them; "" if it has none.
    """

    text: str
    key: str
    nodes: str


class CppCode:
    """The code of one record.

    Attributes:
        calls: the calls whose failures are reported, by their 1-based line.
        called: the 1-based line in which each kernel is called, by its key.
        functions: the kernels that are defined here, each with its first and its last line.
        profiled: the kernel, or the C function of an operator, by the name that PyTorch's profiler shows.
    """

    def __init__(self, data: memoryview) -> None:
        memory.take(BYTES_A_BYTE * len(data), "lines of C++ code")
        self.calls: dict[int, CheckedCall] = {}
        self.called: dict[str, int] = {}
        self.functions: dict[str, tuple[int, int]] = {}
        self.profiled: dict[str, str] = {}
        self._read_calls(data)
        self._read_functions(data)

    def has_line(self, kernel: str, line: int) -> bool:
        """Whether a kernel is defined here, and a line is part of it."""
        start, end = self.functions.get(kernel, (0, -1))
        return start <= line <= end

    def _read_calls(self, data: memoryview) -> None:
        """Find the calls. A handle belongs to the first call of its kernel after the comment."""
        key = nodes = b""
        for number, line in _lines(data, CALLS):
            if match := HANDLE.fullmatch(line):
                key = match["key"]
            elif match := NODES.fullmatch(line):
                key, nodes = b"", match["nodes"]
            elif line.startswith(b"}"):  # a function ends
                key = nodes = b""
            elif match := CHECKED.fullmatch(line) or CALLED.fullmatch(line):
                is_kernel = _is_kernel(match["name"], key)
                if match.re is CHECKED:
                    texts = (match["call"], key, nodes) if is_kernel else (match["call"], b"", b"")
                    self.calls[number] = CheckedCall(*map(decoded, texts))
                if is_kernel:
                    if key:
                        self.called.setdefault(decoded(key), number)
                    key = nodes = b""

    def _read_functions(self, data: memoryview) -> None:
        """Find the kernels that are defined: a head, and a body between braces of their own lines."""
        name, start, is_inside = "", 0, False
        for number, line in _lines(data, FUNCTIONS):
            if is_inside and line.startswith(b"}"):
                self.functions[name] = start, number
                start, is_inside = 0, False
            elif match := RECORDED.match(line):
                recorded = decoded(match["name"])
                if is_inside:
                    self.profiled[recorded] = name
                elif OPERATOR.fullmatch(match["name"]):
                    self.profiled[recorded] = recorded
            elif match := DEFINED.match(line):
                name, start = decoded(match["name"]), number
            elif line.startswith(b"{"):
                is_inside = start > 0
            elif not is_inside:
                start = 0


def _is_kernel(name: bytes, key: bytes) -> bool:
    """Whether a function is the kernel that a comment names; without a comment, whether it is an operator."""
    if name == PROXY:
        return not key or OPERATOR.match(key) is not None
    return name == key.rpartition(b":")[0] if key else OPERATOR.match(name) is not None


def _lines(data: memoryview, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that a pattern matches, with their 1-based numbers."""
    code, number, at = bytes(data), 1, 0
    for match in pattern.finditer(code):
        number += code.count(b"\n", at, match.start())
        at = match.start()
        yield number, match[0]
