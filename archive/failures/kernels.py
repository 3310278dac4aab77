"""A line of a log that names code or a kernel of AOTInductor → the same with the model source below it.

If several places call the kernel, all are told: see :mod:`~archive.failures.kernel_lines`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.failures.failures import Answer, Cause
from archive.failures.kernel_lines import ProfiledKernel, named_line
from archive.failures.nodes import digest, innermost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.failures.kernel_lines import Named
    from archive.failures.lookups.kernels import CalledKernel
    from archive.failures.streams import Stream
    from archive.reader.compiled import CompiledModel
    from archive.reader.facts import Facts

EXPLAINED = re.compile(rb"Kernel .+:\d+, of .*|\d+ places call this kernel:")
"""The first line of an explanation."""
FURTHER = re.compile(rb'Original traceback:|None|File ".*|  .*')
"""Other lines of an explanation."""
MAX_LINES = 10_000
"""Lines of an explanation in a log."""


class KernelLine:
    """A line of a log that names code or a kernel.

    Args:
        stream: the line, and those below it.

    Attributes:
        stream: as given.
        named: what the line names.
    """

    shows_code = False

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._text = stream.text(0) or b""
        found = named_line(self._text)
        assert found is not None  # noqa: S101 (else it is no such line)
        self.named = found.named

    @property
    def what(self) -> str:
        """What the line names."""
        return str(self.named)

    def may_be_of(self, facts: Facts) -> bool:  # noqa: ARG002 (they do not tell)
        """True."""
        return True

    @property
    def key(self) -> bytes:
        """The same for lines that name the same."""
        return digest(repr(self.named))

    @property
    def is_explained(self) -> bool:
        """Whether the log has its source already."""
        return EXPLAINED.fullmatch(self.stream.text(1, is_patient=False) or b"") is not None

    def leave(self) -> None:
        """Let the source that the log has stay as it is: frames in it are no other failure's."""
        for at in range(1, MAX_LINES):
            text = self.stream.text(at, is_patient=False)
            if text is None or not (EXPLAINED.fullmatch(text) or FURTHER.fullmatch(text)) or named_line(text):
                return
            self.stream.line(at).output = self.stream.line(at).data

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
    found = {name: known for name, model in models.items() if any(known := named.found(model))}
    if not found:
        has_code = any(model.sources for model in models.values())
        return Known(None, OTHER if has_code else NO_CODE, is_possible=False, cause=None)
    if len(found) > 1:
        why = f"may be of the models {' or '.join(found)}, and nothing tells which"
        return Known(None, why, is_possible=True, cause=None)
    ((kernels, why),) = found.values()
    if any(kernel.is_traced for kernel in kernels):
        text = "\n".join(kernel.text.removesuffix("\n") for kernel in kernels)
        if len(kernels) > 1:
            text = f"{len(kernels)} places call this kernel:\n{text}"
        return Known(text.encode("utf-8", "surrogatepass"), "", is_possible=True, cause=_cause(kernels))
    labels = " and ".join(kernel.label for kernel in kernels)
    return Known(None, why or f"no source is recorded for {labels}", is_possible=True, cause=None)


OTHER = "this archive has none: the line is of another model"
NO_CODE = "this archive has no C++ code to find the line in; its companion may have it"


def _cause(kernels: Sequence[CalledKernel]) -> Cause:
    """The line of the model, if there is but one; and the kernel."""
    traces = {trace for one in kernels for trace in one.kernel.traces if trace is not None}
    places = {(frame.file, frame.line) for trace in traces if (frame := innermost(trace.frames))}
    place = places.pop() if len(places) == 1 else ("", 0)
    label = kernels[0].label if len(kernels) == 1 else kernels[0].kernel.name
    return Cause(*place, label, "")
