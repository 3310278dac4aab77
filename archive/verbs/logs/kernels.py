"""A line of a log that names code or a kernel of AOTInductor → the same with the model source below it.

A call of PyTorch's C functions that fails, a kernel that fails, and a row of PyTorch's profile::

    Error: aoti_torch_cpu_addmm_out(buf1, …) API call failed at /tmp/…/HASH.wrapper.cpp, line 978
    Exception raised from cpp_fused_add_relu_1 at /tmp/…/HASH.kernel.cpp:163 (most recent call first):
                  graph_2_cpp_fused_add_relu_1         0.00%       0.080us …

The package has the code: a line counts only if it holds the call, or is part of the kernel; a name of the
profiler only if the kernel gives it itself. HASH is a digest of the code, so that it names the package. If
several places call the kernel, all are told. Source: ``torch/headeronly/util/shim_utils.h``, ``c10/util/
Exception.cpp`` and ``torch/autograd/profiler_util.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.base.strings import decoded
from archive.verbs.kernels import UNRECORDED, CalledKernel
from archive.verbs.logs.failures import Answer, Cause
from archive.verbs.logs.nodes import digest, innermost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.reader.compiled import CompiledModel
    from archive.verbs.logs.streams import Stream

CALL_FAILED = re.compile(
    rb"(?P<prefix>.*?)(?:\w*Error: )?(?P<call>aoti_torch_\w+\(.*\)) "
    rb"API call failed at (?:.*[/\\])?(?P<file>[\w.-]+\.cpp), line (?P<line>\d{1,9})\s*"
)
KERNEL_FAILED = re.compile(
    rb"(?P<prefix>.*?)Exception raised from (?P<kernel>\w+) "
    rb"at (?:.*[/\\])?(?P<file>[\w.-]+\.(?:kernel|wrapper)\.cpp):(?P<line>\d{1,9}) "
    rb"\(most recent call first\):\s*"
)
ROW = re.compile(rb"(?P<prefix>(?:.*?\S )?) *(?P<name>graph_\d+_cpp_\w+?)(?P<cut>\.\.\.)? {2,}\d+\.\d+% .*")
FORMS = (CALL_FAILED, KERNEL_FAILED, ROW)
HASH = re.compile(r"c[a-z2-7]{51}\..*")
"""The name of a file of code whose digest it tells."""
EXPLAINED = re.compile(rb"Kernel .+:\d+, of .*|\d+ places call this kernel:")
"""The first line of an explanation."""


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
        of = f"a call for {call.nodes}; " if call.nodes else ""
        return Found((), f"{of}no source is recorded: {UNRECORDED}" if call.key or of else NO_KERNEL)


NO_KERNEL = "no kernel is called there, so that no source is recorded"


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
        if self.file not in model.sources or model.code(self.file).function_at(self.line) != self.kernel:
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
    return Found(kernels, "" if kernels else f"no source is recorded: {UNRECORDED}")


class KernelLine:
    """A line of a log that names code or a kernel.

    Args:
        stream: the line, and those below it.

    Attributes:
        stream: as given.
        named: what the line names.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._text = stream.text(0) or b""
        self.named = _named(self._text)

    @property
    def key(self) -> bytes:
        """The same for lines that name the same."""
        return digest(repr(self.named))

    @property
    def is_explained(self) -> bool:
        """Whether the log has its source already."""
        return EXPLAINED.fullmatch(self.stream.text(1, is_patient=False) or b"") is not None

    @property
    def is_row(self) -> bool:
        """Whether it is no failure, but a row of a profile."""
        return isinstance(self.named, ProfiledKernel)

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log."""
        return len(text) + (text.count(b"\n") + 2) * self.stream.cost(0)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The line, with an explanation below it."""
        yield self.stream.written(0, self._text + b"\n" + text)

    def answer(self, known: Known) -> Answer:
        """The answer of an archive.

        Args:
            known: what the archive knows of the line.
        """
        is_named = self.named.is_digest and known.is_possible
        notes = ((0, f"{self.named}: {known.why}"),) if known.text is None else ()
        return Answer(self, known.text, notes, is_named, known.is_possible, known.cause)


class Known(NamedTuple):
    """What an archive knows of a line.

    Attributes:
        text: its explanation; None where the archive has none.
        why: the reason that there is none.
        is_possible: whether the line may be of the archive.
        cause: what failed; None where it is not explained.
    """

    text: bytes | None
    why: str
    is_possible: bool
    cause: Cause | None


def known_of(models: Mapping[str, CompiledModel], named: Named) -> Known:
    """What an archive knows of a line.

    Args:
        models: the compiled models of the archive.
        named: what the line names.

    Raises:
        ArchiveError: a model that is needed is broken.
    """
    found = [named.found(model) for model in models.values()]
    kernels = [kernel for one in found for kernel in one.kernels]
    if any(kernel.is_traced for kernel in kernels):
        text = "\n".join(kernel.text.removesuffix("\n") for kernel in kernels)
        if len(kernels) > 1:
            text = f"{len(kernels)} places call this kernel:\n{text}"
        return Known(text.encode("utf-8", "surrogatepass"), "", is_possible=True, cause=_cause(kernels))
    why = next((one.why for one in found if one.why), "")
    if kernels:
        why = f"no source is recorded for {' and '.join(kernel.label for kernel in kernels)}"
    other = "this archive has none: the line is of another model"
    return Known(None, why or other, is_possible=bool(why), cause=None)


def _named(text: bytes) -> FailedCall | FailedKernel | ProfiledKernel:
    """What a line names."""
    found = next(found for form in FORMS if (found := form.fullmatch(text)))
    if found.re is ROW:
        return ProfiledKernel(decoded(found["name"]), found["cut"] is not None)
    file, line = decoded(found["file"]), int(found["line"])
    if found.re is CALL_FAILED:
        return FailedCall(decoded(found["call"]), file, line)
    return FailedKernel(decoded(found["kernel"]), file, line)


def _cause(kernels: Sequence[CalledKernel]) -> Cause:
    """The line of the model, if there is but one; and the kernel."""
    traces = {trace for one in kernels for trace in one.kernel.traces if trace is not None}
    places = {(frame.file, frame.line) for trace in traces if (frame := innermost(trace.frames))}
    place = places.pop() if len(places) == 1 else ("", 0)
    label = kernels[0].label if len(kernels) == 1 else kernels[0].kernel.name
    return Cause(*place, label, "")
