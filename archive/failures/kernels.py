"""A line of a log that names code or a kernel of AOTInductor → the same with the model source below it.

A call of PyTorch's C functions that fails, a kernel that fails, and a row of PyTorch's profile::

    Error: aoti_torch_cpu_addmm_out(buf1, …) API call failed at /tmp/…/HASH.wrapper.cpp, line 978
    Exception raised from cpp_fused_add_relu_1 at /tmp/…/HASH.kernel.cpp:163 (most recent call first):
                  graph_2_cpp_fused_add_relu_1         0.00%       0.080us …
                               cpp_fused_mul_0         0.01%       0.412us …
                      aoti_torch_cpu_addmm_out         4.99%     286.595us …

The package has the code: a line counts only if it holds the call, or is part of the kernel; a name in a
profile only if the kernel itself gives it. HASH is a digest of the code and of how it was compiled, so it
names the package.

If several places call the kernel, the explanation shows all of them. Source: PyTorch 2.13,
``torch/headeronly/util/shim_utils.h``, ``c10/util/Exception.cpp`` and ``torch/autograd/profiler_util.py``.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.failures.failure import Answer, Failure, FailureCause, leave
from archive.failures.nodes import digest
from archive.reader.lookups.kernels import CalledKernel, why_unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.reader.compiled import CompiledModel

    Named: TypeAlias = "FailedCall | FailedKernel | ProfiledKernel"

CALL, CALL_FAILED, KERNEL_FAILED = b"aoti_torch_", b" API call failed at ", b"Exception raised from "
CALLED = re.compile(rb"\w+\(.*\)")
LINE_OF_CALL = re.compile(rb"(?:.*[/\\])?(?P<file>[\w.-]+\.cpp), line (?P<line>\d{1,9})\s*")
LINE_OF_KERNEL = re.compile(
    rb"(?P<kernel>cpp_\w+) at (?:.*[/\\])?(?P<file>[\w.-]+\.(?:kernel|wrapper)\.cpp):(?P<line>\d{1,9}) "
    rb"\(most recent call first\):\s*"
)
"""Inductor calls the kernels that it generates ``cpp_…``. Other functions, such as ``run_impl``,
aren't kernels and have no line of the model."""
ROW = re.compile(
    rb"(?:\A| )(?P<name>(?:graph_\d+_)?cpp_\w+|aoti_torch_(?:cpu|cuda|mps|xpu)_\w+)(?P<cut>\.\.\.)?"
    rb" {2,}\d+\.\d+% "
)
"""A row of a profile: kernels of a branch have no number of a graph in their names."""
ERROR = b"Error: "
"""The last letters of what is printed before an error's text."""
HASH = re.compile(r"c[a-z2-7]{51}\..*")
"""A name of a code file that contains the code's digest."""
EXPLAINED = re.compile(rb"Kernel .+:\d+, of .*|\d+ places call this kernel:")
"""The first line of an explanation."""
OF_EXPLANATION = re.compile(EXPLAINED.pattern + rb'|Original traceback:|None|File ".*|  .*')
"""A line of an explanation."""
OTHER = "this archive has none: the line is of another model"
NO_CODE = "this archive has no C++ code to find the line in; its companion may have it"


# --- what a line names


class FoundKernels(NamedTuple):
    """What a package knows of a line.

    Attributes:
        why: why there is none or no source, in words; "" where the package has nothing like it.
    """

    kernels: Sequence[CalledKernel]
    why: str


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

    def found(self, model: CompiledModel) -> FoundKernels:
        """The kernel that the line calls, if it is the same call."""
        if self.file not in model.sources:
            return FoundKernels((), "")
        call = model.code(self.file).calls.get(self.line)
        if call is None or call.text.split() != self.call.split():
            return FoundKernels((), "")
        if call.key in model.kernels:
            return FoundKernels([CalledKernel(model, model.kernels[call.key])], "")
        if not call.key and not call.nodes:
            return FoundKernels((), "no kernel is called there, so that no source is recorded")
        of = f"a call for {call.nodes}; " if call.nodes else ""
        return FoundKernels((), of + why_unrecorded(model, call.key or "handle of this call"))


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

    def found(self, model: CompiledModel) -> FoundKernels:
        """The kernels of that name, if the line is part of it."""
        if self.file not in model.sources or not model.code(self.file).has_line(self.kernel, self.line):
            return FoundKernels((), "")
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

    def found(self, model: CompiledModel) -> FoundKernels:
        """The kernels that are shown under the name; several where it is cut."""
        names = model.shown_from(self.name) if self.is_cut else model.profiled.get(self.name, set())
        if len(names) > 1:
            return FoundKernels((), f"may be {' or '.join(sorted(names))}")
        return _of_name(model, names) if names else FoundKernels((), "")


def _of_name(model: CompiledModel, names: set[str]) -> FoundKernels:
    kernels = [CalledKernel(model, kernel) for name in names for kernel in model.named.get(name, ())]
    return FoundKernels(kernels, "" if kernels else why_unrecorded(model, " or ".join(sorted(names))))


class NamedLine(NamedTuple):
    """A line that names code or a kernel.

    Attributes:
        prefix: what a logger put before its text.
    """

    prefix: bytes
    named: Named


def named_line(text: bytes) -> NamedLine | None:
    """What a line of a log names, code or a kernel; None for other lines.

    Each pattern is tried at one place, so a long line takes little time.
    """
    before, words, place = text.rpartition(CALL_FAILED)
    if words:
        start, line = before.find(CALL), LINE_OF_CALL.fullmatch(place)
        if start < 0 or line is None or not CALLED.fullmatch(before, start):
            return None
        prefix = before[:start]
        if prefix.endswith(ERROR):  # "Error: " of C++, "RuntimeError: " of Python
            logged, blank, _ = prefix.removesuffix(b" ").rpartition(b" ")
            prefix = logged + blank
        call = FailedCall(decoded(before[start:]), decoded(line["file"]), int(line["line"]))
        return NamedLine(prefix, call)
    before, words, place = text.rpartition(KERNEL_FAILED)
    if words:
        line = LINE_OF_KERNEL.fullmatch(place)
        if line is None:
            return None
        kernel = FailedKernel(decoded(line["kernel"]), decoded(line["file"]), int(line["line"]))
        return NamedLine(before, kernel)
    row = ROW.search(text)
    if row is None:
        return None
    prefix = text[: row.start("name")].rstrip(b" ")
    profiled = ProfiledKernel(decoded(row["name"]), row["cut"] is not None)
    return NamedLine(prefix + b" " if prefix else b"", profiled)


# --- the failure


class KernelFailure(Failure):
    """A line of a log that names code or a kernel."""

    def __init__(self, stream: LogStream) -> None:
        super().__init__(stream)
        line = named_line(stream.text(0) or b"")
        assert line is not None  # noqa: S101 (else it isn't such a line)
        self.named = line.named

    @property
    def what(self) -> str:
        return str(self.named)

    @property
    def key(self) -> bytes:
        return digest(repr(self.named))

    @property
    def is_explained(self) -> bool:
        """Whether the log has its source already."""
        return EXPLAINED.fullmatch(self.stream.text(1, is_patient=False) or b"") is not None

    def leave(self) -> None:
        """Leave the source that the log has as it is: its frames aren't another failure's."""
        leave(self.stream, 1, lambda text: bool(OF_EXPLANATION.fullmatch(text)) and not named_line(text))

    @property
    def is_row(self) -> bool:  # type: ignore[override]
        """Whether it isn't a failure, but a row of a profile."""
        return isinstance(self.named, ProfiledKernel)

    def answer(self, model: OneModel) -> Answer | None:
        if not model.archive.compiled:
            return None
        source = model.made(_sources)(self.named)
        is_named = self.named.is_digest and source.is_possible
        notes = ((0, f"{self.named}: {source.why}"),) if source.text is None else ()
        return Answer(self, source.text, notes, is_named, source.is_possible, source.cause)


class KernelSource(NamedTuple):
    """What an archive knows of a line that names code or a kernel.

    Attributes:
        text: its explanation; None where the archive has none.
        cause: what failed; None where it is not explained.
    """

    text: bytes | None
    why: str
    is_possible: bool
    cause: FailureCause | None = None


def _sources(model: OneModel) -> Callable[[Named], KernelSource]:
    """What a model knows of such lines: a profile has a row of the same kernel for each call."""
    return lru_cache(maxsize=256)(partial(source_of, model.archive.compiled))


def source_of(models: Mapping[str, CompiledModel], named: Named) -> KernelSource:
    """What an archive knows of a line that names code or a kernel."""
    known = {name: found for name, model in models.items() if any(found := named.found(model))}
    if not known:
        has_code = any(model.sources for model in models.values())
        return KernelSource(None, OTHER if has_code else NO_CODE, is_possible=False)
    if len(known) > 1:
        why = f"may be of the models {' or '.join(known)}, and nothing says which"
        return KernelSource(None, why, is_possible=True)
    ((kernels, why),) = known.values()
    if not any(kernel.is_traced for kernel in kernels):
        labels = " and ".join(kernel.label for kernel in kernels)
        return KernelSource(None, why or f"no source is recorded for {labels}", is_possible=True)
    text = "\n".join(kernel.text.removesuffix("\n") for kernel in kernels)
    if len(kernels) > 1:
        text = f"{len(kernels)} places call this kernel:\n{text}"
    # The cause is the line of the model, if there is only one, and the kernel.
    traces = {trace for kernel in kernels for trace in kernel.kernel.traces if trace is not None}
    places = {(trace.of_model.file, trace.of_model.line) for trace in traces}
    place = places.pop() if len(places) == 1 else ("", 0)
    label = kernels[0].label if len(kernels) == 1 else kernels[0].kernel.name
    explanation = text.encode("utf-8", "surrogatepass")
    return KernelSource(explanation, "", is_possible=True, cause=FailureCause(*place, label, ""))
