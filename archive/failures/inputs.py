"""A line of ExecuTorch's runtime that refuses what its caller gave → the same with what the method takes.

The runtime numbers inputs, and names neither them nor, in this line, the method::

    [method.cpp:1206] Input 0 has unexpected scalar type: expected Float but was Long.
    [tensor_impl.cpp:135] Attempted to resize a static tensor. Expected shape (2, 4), but received (3, 4).
    [method.cpp:1243] Error resizing tensor at input 0
    [method.cpp:1711] Input 1 has not been set.
    [method.cpp:1334] Invalid number of inputs provided. Expected 2, but got 1
    [method.cpp:1157] Input index (2) must be less than the number of inputs in method (2).
    [program.cpp:67] No method named 'words' in program

Below it are written the input's name, dtype and shape in each method that may have refused it, or the
existing methods. An ETRecord has these. **A line that the record contradicts stays unexplained**: the dtype,
rank, sizes and number of inputs that the line expects must be the record's, and a missing method must be
missing there. A size that the runtime has fixed must not differ between calls in the record.

Lines of other software read like these, so a line counts only with the runtime's own words before it.
Source: ExecuTorch 1.5, ``Method::set_input`` in ``runtime/executor/method.cpp``,
``TensorImpl::internal_resize_contiguous`` in ``runtime/core/portable_type/tensor_impl.cpp``, and
``runtime/executor/program.cpp``; earlier releases for the numbers of dtypes.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from archive.base.errors import counted, one_line, shown
from archive.base.strings import decoded
from archive.failures.failure import Answer, Failure, FailureCause
from archive.failures.instructions import HEAD, MOST_BEHIND, method_in
from archive.failures.nodes import digest
from archive.formats.etrecord import edge_program
from archive.formats.tensors.dtypes import SCALARS, STORAGES
from archive.reader.lacking import why_no_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.formats.exported.inputs import ProgramInput
    from archive.reader.archive import Archive

RUNTIMES_OWN = re.compile(rb".*\b[Ee]xecu[Tt]orch\b")
"""Precedes a line of the runtime that names no place in its source: on Android, as its tag."""
REFUSED = re.compile(
    rb"(?P<prefix>.*?)(?P<head>" + HEAD + rb")(?:"
    rb"Input (?P<typed>[0-9]{1,6}) has unexpected scalar type: expected (?P<expected>\w+) but was \w+\."
    rb"|The (?P<numbered>[0-9]{1,6})-th input tensor's scalartype does not meet requirement: found [0-9]+ "
    rb"but expected (?P<dtype>[0-9]{1,3})"
    rb"|Error resizing tensor at input (?P<resized>[0-9]{1,6})"
    rb"|Input (?P<unset>[0-9]{1,6}) has not been set\."
    rb"|Input (?P<tagged>[0-9]{1,6}) was expected to have type (?P<tag>\w+) but was \w+\."
    rb"|Invalid number of inputs provided\. Expected (?P<count>[0-9]{1,6}), but got [0-9]+"
    rb"|Input index \([0-9]+\) must be less than the number of inputs in method \((?P<taken>[0-9]{1,6})\)\."
    rb"|No method named '(?P<missing>[^']+)' in program)"
)
RESIZED = re.compile(
    rb"(?:.*\b)?Attempted to (?:"
    rb"change the tensor rank which is immutable: old=(?P<rank>[0-9]{1,3}), new=[0-9]+"
    rb"|resize a static tensor\. Expected shape \((?P<shape>[0-9, ]*)\), but received \([0-9, ]*\)\."
    rb"|resize a bounded tensor with a maximum capacity of (?P<most>[0-9]{1,18}) elements to [0-9]+ "
    rb"elements\.)"
)
"""The line above an input that could not be resized."""
ABOVE = 5
"""Lines above that are searched for it."""
UNSUPPORTED, INVALID = b"10", b"12"
"""The statuses of an input that could not be resized, and of all others."""
EXPLAINED = re.compile(rb"Input [0-9]+ of method |Method .* takes |The methods are ")
"""Begins the line below a failure that is already explained."""
TORCH_SCALARS = {at: at + 1 for at in range(12)} | {15: 13}
"""The number of a dtype in the JSON of programs by ``c10::ScalarType``'s, up to quantised ones; bfloat16."""
TENSOR = "Tensor"
WHY = {
    "typed": "another dtype",
    "numbered": "another dtype",
    "resized": "another shape",
    "unset": "not given",
    "tagged": "another type",
    "count": "another number of inputs",
    "taken": "another number of inputs",
    "missing": "no such method",
}
"""What is wrong, in words, by the group that matched."""
MOST_SHOWN = 8
"""Inputs or methods that an explanation names."""


class InputFailure(Failure):
    """A line of ExecuTorch's runtime that refuses an input, or a method.

    Args:
        above: the texts above it, the nearest first.
    """

    def __init__(self, stream: LogStream, above: Iterable[bytes]) -> None:
        super().__init__(stream)
        line = REFUSED.fullmatch(stream.text(0) or b"")
        assert line is not None  # noqa: S101 (else it isn't a failure)
        self._line = {key: text for key, text in line.groupdict().items() if text is not None}
        near = (RESIZED.fullmatch(text) for text in islice(above, ABOVE))
        resized = next(filter(None, near), None) if "resized" in self._line else None
        self._resized = resized.groupdict() if resized else {}

    @property
    def is_explained(self) -> bool:
        """Whether an explanation stands below it."""
        return EXPLAINED.match(self.stream.text(1, is_patient=False) or b"") is not None

    @property
    def number(self) -> int | None:
        """The number of the refused input, from 0; None where no single input is."""
        keys = ("typed", "numbered", "resized", "unset", "tagged")
        return next((int(self._line[key]) for key in keys if key in self._line), None)

    @property
    def missing(self) -> str:
        """The method that the model is said to lack; "" for other failures."""
        return decoded(self._line.get("missing", b""))

    @cached_property
    def method(self) -> str:
        """The method that refused it; "" where no line after the failure names it."""
        status = UNSUPPORTED if "resized" in self._line else INVALID
        for at in range(1, MOST_BEHIND):
            text = self.stream.text(at, is_patient=False)
            if text is None or REFUSED.fullmatch(text):
                return ""
            named = method_in(text)
            if named is not None:
                return named[0] if named[1] == status else ""
        return ""

    def answer(self, model: OneModel) -> Answer | None:
        return answer(model.archive, self) if model.archive.instructions else None

    @property
    def what(self) -> str:
        if self.missing:
            return f"no method {shown(self.missing)}"
        of_method = f" of method {one_line(self.method)}" if self.method else ""
        return (
            f"the number of inputs{of_method}" if self.number is None else f"input {self.number}{of_method}"
        )

    @property
    def why(self) -> str:
        """What is wrong, in words."""
        return next(words for key, words in WHY.items() if key in self._line)

    @property
    def key(self) -> bytes:
        return digest(repr(self._line), repr(self._resized), self.method)

    def contradiction(self, inputs: tuple[ProgramInput, ...]) -> str:
        """What is so instead of what the line says; "" where the inputs agree with it."""
        line = self._line
        for key in ("count", "taken"):
            if key in line and int(line[key]) != len(inputs):
                return f"there are {len(inputs)}"
        if self.number is None:
            return ""
        if self.number >= len(inputs):
            return f"there are {len(inputs)}"
        return self._contradicted(inputs[self.number])

    def _contradicted(self, given: ProgramInput) -> str:
        """The same for the input that the line names."""
        line, resized = self._line, self._resized
        expected = STORAGES.get(decoded(line.get("expected", b"")), "")
        if "dtype" in line:
            expected = SCALARS.get(TORCH_SCALARS.get(int(line["dtype"]), 0), "")
        if expected and given.dtype and expected != given.dtype:
            return f"it is {given.dtype}"
        if "tag" in line and given.dtype and decoded(line["tag"]) != TENSOR:
            return "it is a tensor"
        if resized.get("rank") is not None and int(resized["rank"]) != len(given.sizes):
            return f"it has {len(given.sizes)} sizes"
        if resized.get("shape") is not None and not _fits(resized["shape"], given):
            return f"it is {given.text},"
        if resized.get("most") is not None and not any(isinstance(size, str) for size in given.sizes):
            return "its sizes are fixed"
        most = given.most_elements
        if resized.get("most") is not None and most is not None and int(resized["most"]) != most:
            return f"it has {most} elements at most"
        return ""


def refusal_in(text: bytes) -> re.Match[bytes] | None:
    """A line that refuses an input or a method, with the runtime's own words before it."""
    line = REFUSED.fullmatch(text)
    is_own = line is not None and (line["head"] or RUNTIMES_OWN.match(line["prefix"]))
    return line if is_own else None


def _fits(shape: bytes, given: ProgramInput) -> bool:
    """Whether a fixed shape that the runtime expects is an input's."""
    return tuple(int(size) for size in shape.replace(b" ", b"").split(b",") if size) == given.sizes


def answer(archive: Archive, failure: InputFailure) -> Answer:
    """An ETRecord's answer to a failure."""
    methods = sorted(archive.instructions)
    if failure.missing:
        return _of_missing(failure, methods)
    if failure.method and failure.method not in methods:
        note = f"{failure.what}: this archive has no method of that name: the failure is another model's"
        return Answer(failure, None, ((0, note),))
    known: dict[str, tuple[ProgramInput, ...]] = {}
    why = ""
    for method in [failure.method] if failure.method else methods:
        name = edge_program(method, archive.programs)
        inputs = None if name is None else archive.programs[name].inputs
        if inputs is None:
            note = f"{failure.what}: {why_no_inputs(archive, one_line(method))}"
            return Answer(failure, None, ((0, note),), is_possible=True, is_unrecorded=not archive.has_code)
        contradiction = failure.contradiction(inputs)
        if not contradiction:
            known[method] = inputs
        elif not why:
            why = f"{contradiction} in {one_line(method)}"
    if not known:
        note = f"{failure.what}: {why} of this archive: the failure is another model's, or version's"
        return Answer(failure, None, ((0, note),))
    lines = [_line(failure, method, inputs) for method, inputs in islice(known.items(), MOST_SHOWN)]
    if len(known) > MOST_SHOWN:
        lines.append(f"{len(known) - MOST_SHOWN:,} more methods take such an input")
    names = (
        {inputs[failure.number].name for inputs in known.values()} if failure.number is not None else set()
    )
    places = [one_line(next(iter(known)))] if len(known) == 1 else []
    places += [f"input {one_line(name)}" for name in names if len(names) == 1]
    return _answer(failure, lines, ", ".join(places))


def _of_missing(failure: InputFailure, methods: list[str]) -> Answer:
    if failure.missing in methods:
        note = f"{failure.what}: this archive has it: the failure is another model's, or version's"
        return Answer(failure, None, ((0, note),))
    more = f" and {len(methods) - MOST_SHOWN:,} more" if len(methods) > MOST_SHOWN else ""
    listed = ", ".join(map(one_line, methods[:MOST_SHOWN]))
    return _answer(failure, [f"The methods are {listed}{more}"], shown(failure.missing))


def _line(failure: InputFailure, method: str, inputs: tuple[ProgramInput, ...]) -> str:
    if failure.number is not None:
        given = inputs[failure.number]
        return f"Input {failure.number} of method {one_line(method)}: {one_line(given.text)}"
    more = f"; and {len(inputs) - MOST_SHOWN:,} more" if len(inputs) > MOST_SHOWN else ""
    listed = "; ".join(one_line(given.text) for given in inputs[:MOST_SHOWN])
    return f"Method {one_line(method)} takes {counted(len(inputs), 'input')}: {listed or 'none'}{more}"


def _answer(failure: InputFailure, lines: list[str], where: str) -> Answer:
    text = "\n".join(lines).encode("utf-8", "surrogatepass")
    cause = FailureCause("", 0, where, failure.why)
    return Answer(failure, text, is_possible=True, cause=cause)
