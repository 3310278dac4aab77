"""A failure of ExecuTorch's runtime → the same with the source of the instruction that failed.

The runtime names an instruction by its number, and the operator that it ran, unless it called a backend::

    [method.cpp:1483] KernelCall failed at instruction 0:14 in operator aten::embedding.out: 0x12
    [method.cpp:1493] arg 0 with type id 1
    …
    CALL_DELEGATE execute failed at instruction 3: 0x1

Module hierarchy and stack trace of the node that the instruction was made from are written below its line. An
ETRecord leads there, if the node's operator is the one in the log. Source: ExecuTorch 1.5,
``Method::execute_instruction`` in ``runtime/executor/method.cpp``, and ``et_pal_emit_log_message`` for the
prefix: the Python package's as above, a host's ``E 00:00:00.000061 executorch:method.cpp:1483]``, that of
Arm's boards ``E [executorch:method.cpp:1483 execute_instruction()]``; Android has none of its own.

The runtime does not know the name of its method. The caller prints it after the failure, with the same
status::

    Failed to execute method words, error: 0x12                                     Python and WASM since 1.0
    method->set_inputs() for method 'words' failed with error 0x12                   Python since 1.5
    Execution of method words failed with status 0x12         runners in C++; Android's Java until 0.7, as 0.2
    [ExecuTorch Error 0x12] Invalid argument: Execution failed for method: words     Android's Java since 1.0

Lines of other software may stand between, as in a Python traceback. Python before 1.0 names no method: its
``executing execution plan for method 'forward' failed`` says so for every method. Source:
``extension/pybindings/pybindings.cpp``, ``extension/wasm/wasm_bindings.cpp``, ``extension/android/`` and
``examples/portable/executor_runner/executor_runner.cpp`` of the releases 0.2 to 1.4.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from archive.base.errors import LimitError, one_line
from archive.base.strings import decoded
from archive.failures.failure import Answer, Failure, why_left
from archive.failures.nodes import answer_of, digest
from archive.failures.operands import contradiction, not_so
from archive.failures.printed import HIERARCHY
from archive.formats.exported.printed import POSITIONAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.limits import Steps
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.reader.lookups.instructions import InstructionNodes
    from archive.reader.lookups.nodes import ProgramNode

HEAD = (
    rb"(?:(?:[A-Z] [0-9:.]+ executorch:|\[)\w+\.cpp:[0-9]+\] "
    rb"|[A-Z] \[executorch:\w+\.cpp:[0-9]+ \w+\(\)\] )?"
)
"""What the runtime puts before each line; it differs from line to line, so it isn't part of a prefix."""
INSTRUCTION = re.compile(
    rb"(?P<prefix>.*?)"
    + HEAD
    + rb"(?:KernelCall failed at instruction (?P<chain>[0-9]{1,9}):(?P<number>[0-9]{1,9})"
    rb" in operator (?P<operator>[\w:.]+)|CALL_DELEGATE execute failed at instruction (?P<call>[0-9]{1,9}))"
    rb": 0x(?P<status>[0-9a-f]+)"
)
"""The first line of a failure."""
FAILED_AT = b" failed at instruction "
ARGUMENT = re.compile(HEAD + rb"arg (?P<at>[0-9]{1,9}) with type id (?P<type>[0-9]{1,9})")
"""The second line, if an operator failed: there is one for each of its arguments."""
KERNEL = re.compile(
    rb"(?:[A-Z] [0-9:.]+ executorch:|\[|[A-Z] \[executorch:)(?!method\.cpp)"
    rb"\w+\.(?:cpp|h):[0-9]+[^\]]*\] (?P<text>.*)"
)
"""What a kernel said, in a line above."""
MOST_SAID = 8
"""Lines above that are looked at."""
IS_TENSOR = {0: False, 1: True}
"""Whether an argument of a type id was a tensor (1) or None (0): ``Tag`` in ``runtime/core/tag.h``."""
ERRORS = {
    0x00: "Ok",
    0x01: "Internal",
    0x02: "InvalidState",
    0x03: "EndOfMethod",
    0x04: "AlreadyLoaded",
    0x10: "NotSupported",
    0x11: "NotImplemented",
    0x12: "InvalidArgument",
    0x13: "InvalidType",
    0x14: "OperatorMissing",
    0x15: "RegistrationExceedingMaxKernels",
    0x16: "RegistrationAlreadyRegistered",
    0x20: "NotFound",
    0x21: "MemoryAllocationFailed",
    0x22: "AccessFailed",
    0x23: "InvalidProgram",
    0x24: "InvalidExternalData",
    0x25: "OutOfResources",
    0x30: "DelegateInvalidCompatibility",
    0x31: "DelegateMemoryAllocationFailed",
    0x32: "DelegateInvalidHandle",
}
"""What a status means: ``Error`` in ``runtime/core/error.h`` of ExecuTorch 1.5."""
METHODS = (
    re.compile(rb"Failed to execute method (?P<method>.+?), error: 0x(?P<status>[0-9a-f]+)"),
    re.compile(rb"Execution of method (?P<method>.+?) failed with status 0x(?P<status>[0-9a-f]+)"),
    re.compile(rb"method->\w+\(\) for method '(?P<method>[^']+)' failed with error 0x(?P<status>[0-9a-f]+)"),
    re.compile(
        rb"\[ExecuTorch Error 0x(?P<status>[0-9a-f]+)\] [^:]*: Execution failed for method: (?P<method>.+)"
    ),
)
"""The lines after a failure that name its method."""
MOST_BEHIND = 200
"""Lines after a failure in which its method's name is looked for."""
CHARACTERS_A_STEP = 4096
"""Characters of a node's metadata that are looked through in a step."""
UNRECORDED = "no node is recorded for it, as for instructions of `cond`, and those that ExecuTorch adds"


def is_argument(text: bytes) -> bool:
    """Whether a text may be the second line of a failure, or the first one of its explanation."""
    return text.startswith(HIERARCHY) or ARGUMENT.fullmatch(text) is not None


def method_in(text: bytes) -> tuple[str, bytes] | None:
    """The method that a line after a failure names, and the status in hexadecimal digits; None for others."""
    for form in METHODS:
        if named := form.search(text):
            return decoded(named["method"]), named["status"]
    return None


class InstructionFailure(Failure):
    """A line of ExecuTorch's runtime that names an instruction.

    Attributes:
        operator: the one it ran; "" for a call of a backend.
        status: the failure's, as hexadecimal digits.
        said: what the kernel said in the lines directly above, the nearest first.
        message: the status by ExecuTorch's name, and what the kernel said first.

    Args:
        above: the lines above in the log, the nearest first.
    """

    def __init__(self, stream: LogStream, above: Iterable[bytes] = ()) -> None:
        super().__init__(stream)
        line = INSTRUCTION.fullmatch(stream.text(0) or b"")
        assert line is not None  # noqa: S101 (else it isn't a failure)
        self.chain = int(line["chain"] or 0)  # the runtime prints no chain of a call of a backend
        self.number = int(line["number"] or line["call"])
        self.operator = decoded(line["operator"] or b"")
        self.status = line["status"]
        texts = (text for one in above if (text := stream.text_of(one)) is not None)
        kernels = takewhile(bool, (KERNEL.fullmatch(text) for text in islice(texts, MOST_SAID)))
        self.said = tuple(decoded(found["text"]) for found in kernels if found)
        name = ERRORS.get(int(self.status, 16))
        status = f"Error::{name}" if name else f"error 0x{decoded(self.status)}"
        self.message = ": ".join([status, *map(one_line, self.said[-1:])])

    @cached_property
    def types(self) -> dict[int, int]:
        """The types of the operator's arguments, by their numbers, as far as the lines below have them."""
        types = dict[int, int]()
        for at in range(1, MOST_BEHIND):
            argument = ARGUMENT.fullmatch(self.stream.text(at, is_patient=False) or b"")
            if argument is None or int(argument["at"]) in types:
                break
            types[int(argument["at"])] = int(argument["type"])
        return types

    @cached_property
    def method(self) -> str:
        """The method that failed; "" where no line after the failure names it."""
        for at in range(1, MOST_BEHIND):
            text = self.stream.text(at, is_patient=False)
            if text is None or FAILED_AT in text:
                return ""
            named = method_in(text)
            if named is not None:
                return named[0] if named[1] == self.status else ""
        return ""

    @property
    def is_explained(self) -> bool:
        """Whether an explanation stands below it."""
        return (self.stream.text(1, is_patient=False) or b"").startswith(HIERARCHY)

    @property
    def what(self) -> str:
        method = f"{one_line(self.method)}/" if self.method else ""
        return f"instruction {method}{self.chain}:{self.number}, {self.operator or 'a call of a backend'}"

    @property
    def key(self) -> bytes:
        return digest(self.what, self.method, str(self.types), *self.said)

    def answer(self, model: OneModel) -> Answer | None:
        if not model.archive.instructions:
            return None
        with model.spending.one_failure() as steps:
            try:
                return answer(model.made(_nodes), self, steps)
            except LimitError as error:
                return Answer(self, None, ((0, why_left(error)),), is_possible=True)

    def contradiction(self, node: ProgramNode) -> str:
        """What the log shows of the operands and the node contradicts, in words; "" for nothing."""
        inputs = (node.site.record or {}).get("inputs", ())
        for at, argument in enumerate(inputs if self.operator else ()):
            given = argument.get("arg") if isinstance(argument, dict) else None
            if not isinstance(given, dict):
                break
            was_tensor = IS_TENSOR.get(self.types.get(at, -1))
            # Older schemas don't say whether an argument is passed by its name, and so out of order.
            is_none = "as_none" in given and argument.get("kind") == POSITIONAL
            if (is_none and was_tensor is True) or ("as_tensor" in given and was_tensor is False):
                return f"arg {at} with type id {self.types[at]}"
        return contradiction(node.site, self.said, is_fixed=True)


def _nodes(model: OneModel) -> InstructionNodes:
    from archive.reader.lookups.instructions import InstructionNodes  # noqa: PLC0415 (few archives have some)

    return InstructionNodes(model.archive)


def answer(instructions: InstructionNodes, failure: InstructionFailure, steps: Steps) -> Answer:
    """An ETRecord's answer to a failure."""
    from archive.reader.lookups.instructions import ADDED, ONLY_CHAIN, runs  # noqa: PLC0415 (few archives have some)

    if failure.chain != ONLY_CHAIN:
        return answer_of(instructions.archive, failure, failure.what, [], lambda node: node.text)
    method = failure.method or None
    if method is not None and not instructions.has_method(method):
        note = f"{failure.what}: this archive has no method of that name: the failure is another model's"
        return Answer(failure, None, ((0, note),))
    recorded = [
        instruction
        for instruction in instructions.numbered(failure.number, steps, only=method)
        if bool(instruction.instruction.delegate) is not bool(failure.operator)
    ]
    nodes = [node for instruction in recorded for node in instruction.nodes]
    if failure.operator:
        nodes = [node for node in nodes if runs(failure.operator, node)]
    against = {node: why for node in nodes if (why := failure.contradiction(node))}
    if against and len(against) == len(nodes):
        node, why = next(iter(against.items()))
        return Answer(failure, None, ((0, not_so(failure.what, why, node)),))
    nodes = [node for node in nodes if node not in against]
    if not nodes and (
        failure.operator.startswith(ADDED)
        or any(not instruction.nodes for instruction in recorded)
        or instructions.has_gap(failure.number, only=method)
        or instructions.has_branch(failure.number, failure.operator, steps, only=method)
    ):
        return Answer(failure, None, ((0, f"{failure.what}: {UNRECORDED}"),), is_possible=True)
    for node in nodes:
        steps.take(sum(map(len, node.site.metadata.values())) // CHARACTERS_A_STEP)
    return answer_of(
        instructions.archive, failure, failure.what, nodes, lambda node: node.text.removesuffix("\n")
    )
