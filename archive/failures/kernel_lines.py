"""Lines of a log that name code or a kernel of AOTInductor, and what a compiled model knows of each.

A call of PyTorch's C functions that fails, a kernel that fails, and a row of PyTorch's profile::

    Error: aoti_torch_cpu_addmm_out(buf1, …) API call failed at /tmp/…/HASH.wrapper.cpp, line 978
    Exception raised from cpp_fused_add_relu_1 at /tmp/…/HASH.kernel.cpp:163 (most recent call first):
                  graph_2_cpp_fused_add_relu_1         0.00%       0.080us …

The package has the code: a line counts only if it holds the call, or is part of the kernel; a name of the
profiler only if the kernel gives it itself. HASH is a digest of the code and of how it was compiled, so that
it names the package.

Source: ``torch/headeronly/util/shim_utils.h``, ``c10/util/Exception.cpp`` and
``torch/autograd/profiler_util.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.base.strings import decoded
from archive.failures.lookups.kernels import CalledKernel, why_unrecorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.reader.compiled import CompiledModel

CALL, CALL_FAILED, KERNEL_FAILED = b"aoti_torch_", b" API call failed at ", b"Exception raised from "
CALLED = re.compile(rb"\w+\(.*\)")
LINE_OF_CALL = re.compile(rb"(?:.*[/\\])?(?P<file>[\w.-]+\.cpp), line (?P<line>\d{1,9})\s*")
LINE_OF_KERNEL = re.compile(
    rb"(?P<kernel>\w+) at (?:.*[/\\])?(?P<file>[\w.-]+\.(?:kernel|wrapper)\.cpp):(?P<line>\d{1,9}) "
    rb"\(most recent call first\):\s*"
)
ROW = re.compile(rb"(?:\A| )(?P<name>graph_\d+_cpp_\w+)(?P<cut>\.\.\.)? {2,}\d+\.\d+% ")
ERROR = b"Error: "
"""The last letters of what is printed before an error's text."""
HASH = re.compile(r"c[a-z2-7]{51}\..*")
"""The name of a file of code whose digest it tells."""


class Found(NamedTuple):
    """What a package knows of a line.

    Attributes:
        kernels: that it may be of.
        why: why there is none or no source, in words; "" where the package has nothing like it.
    """

    kernels: Sequence[CalledKernel]
    why: str


class Named(Hashable, Protocol):
    """What a line of a log names."""

    @property
    def is_digest(self) -> bool:
        """Whether it names the package."""

    def found(self, model: CompiledModel) -> Found:
        """What a model knows of it."""


@dataclass(frozen=True)
class FailedCall:
    """A call in a line of code."""

    call: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.call.partition('(')[0]} in line {self.line} of {self.file}"

    @property
    def is_digest(self) -> bool:
        """Whether it names the package."""
        return HASH.fullmatch(self.file) is not None

    def found(self, model: CompiledModel) -> Found:
        """The kernel that the line calls, if it is the same call."""
        if self.file not in model.sources:
            return Found((), "")
        call = model.code(self.file).calls.get(self.line)
        if call is None or call.text.split() != self.call.split():
            return Found((), "")
        if call.key in model.kernels:
            return Found([CalledKernel(model, model.kernels[call.key])], "")
        if not call.key and not call.nodes:
            return Found((), "no kernel is called there, so that no source is recorded")
        of = f"a call for {call.nodes}; " if call.nodes else ""
        return Found((), of + why_unrecorded(model, call.key or "handle of this call"))


@dataclass(frozen=True)
class FailedKernel:
    """A kernel in a line of code."""

    kernel: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.kernel} in line {self.line} of {self.file}"

    @property
    def is_digest(self) -> bool:
        """Whether it names the package."""
        return HASH.fullmatch(self.file) is not None

    def found(self, model: CompiledModel) -> Found:
        """The kernels of that name, if the line is part of it."""
        if self.file not in model.sources or not model.code(self.file).has_line(self.kernel, self.line):
            return Found((), "")
        return _of_name(model, {self.kernel})


@dataclass(frozen=True)
class ProfiledKernel:
    """A kernel by the name that PyTorch's profiler shows, or the beginning of that."""

    name: str
    is_cut: bool

    def __str__(self) -> str:
        return self.name + "..." * self.is_cut

    @property
    def is_digest(self) -> bool:
        """Whether it names the package."""
        return False

    def found(self, model: CompiledModel) -> Found:
        """The kernels that are shown under the name; several where it is cut."""
        names = model.shown_from(self.name) if self.is_cut else model.profiled.get(self.name, set())
        if len(names) > 1:
            return Found((), f"may be {' or '.join(sorted(names))}")
        return _of_name(model, names) if names else Found((), "")


def _of_name(model: CompiledModel, names: set[str]) -> Found:
    kernels = [CalledKernel(model, one) for name in names for one in model.named.get(name, ())]
    return Found(kernels, "" if kernels else why_unrecorded(model, " or ".join(sorted(names))))


class NamedLine(NamedTuple):
    """A line that names code or a kernel.

    Attributes:
        prefix: what a logger put before its text.
        named: what it names.
    """

    prefix: bytes
    named: FailedCall | FailedKernel | ProfiledKernel


def named_line(text: bytes) -> NamedLine | None:
    """A line of a log as one that names code or a kernel; None where it is another.

    Each pattern is tried at one place, so that a long line takes little time.
    """
    before, found, place = text.rpartition(CALL_FAILED)
    if found:
        return _failed_call(before, place)
    before, found, place = text.rpartition(KERNEL_FAILED)
    if found:
        line = LINE_OF_KERNEL.fullmatch(place)
        if line is None:
            return None
        failed = FailedKernel(decoded(line["kernel"]), decoded(line["file"]), int(line["line"]))
        return NamedLine(before, failed)
    row = ROW.search(text)
    if row is None:
        return None
    prefix = text[: row.start("name")].rstrip(b" ")
    profiled = ProfiledKernel(decoded(row["name"]), row["cut"] is not None)
    return NamedLine(prefix + b" " if prefix else b"", profiled)


def _failed_call(before: bytes, place: bytes) -> NamedLine | None:
    """A failed call of the text before and behind the words that say so."""
    start, line = before.find(CALL), LINE_OF_CALL.fullmatch(place)
    if start < 0 or line is None or not CALLED.fullmatch(before, start):
        return None
    prefix = before[:start]
    if prefix.endswith(ERROR):  # "Error: " of C++, "RuntimeError: " of Python
        kept, blank, _ = prefix.removesuffix(b" ").rpartition(b" ")
        prefix = kept + blank
    return NamedLine(prefix, FailedCall(decoded(before[start:]), decoded(line["file"]), int(line["line"])))
