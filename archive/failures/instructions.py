"""A failure of ExecuTorch's runtime → the same with the source of the instruction that failed.

The runtime names an instruction by its number, and the operator that it ran, unless it called a backend::

    [method.cpp:1483] KernelCall failed at instruction 0:14 in operator aten::embedding.out: 0x12
    [method.cpp:1493] arg 0 with type id 1
    …
    CALL_DELEGATE execute failed at instruction 3: 0x1

Module hierarchy and stack trace of the node that the instruction was made of are written below its line. An
ETRecord leads there, if the node's operator is the one in the log. Source: ExecuTorch 1.5,
``Method::execute_instruction`` in ``runtime/executor/method.cpp``, and ``et_pal_emit_log_message`` for what
stands before: of the Python package as above, on a host ``E 00:00:00.000061 executorch:method.cpp:1483]``, on
Android nothing of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.failures.failures import Answer
from archive.failures.nodes import answer_of, digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.limits import Steps
    from archive.failures.lookups.instructions import Place, Places
    from archive.failures.streams import Stream
    from archive.reader.facts import Facts

HEAD = rb"(?:(?:[A-Z] [0-9:.]+ executorch:|\[)\w+\.cpp:[0-9]+\] )?"
"""What the runtime puts before each line; differs from line to line, so that it is no part of a prefix."""
INSTRUCTION = re.compile(
    rb"(?P<prefix>.*?)"
    + HEAD
    + rb"(?:KernelCall failed at instruction (?P<chain>[0-9]{1,9}):(?P<number>[0-9]{1,9})"
    rb" in operator (?P<operator>[\w:.]+)|CALL_DELEGATE execute failed at instruction (?P<call>[0-9]{1,9}))"
    rb": 0x[0-9a-f]+"
)
"""The first line of a failure."""
ARGUMENT = re.compile(HEAD + rb"arg [0-9]+ with type id [0-9]+")
"""The second line, where an operator failed: each of its arguments has one."""
CHARACTERS_A_STEP = 4096
"""Characters of a node's metadata that are looked through in a step."""
EXPLAINED = b"Module hierarchy:"
"""The first line of an explanation."""
UNRECORDED = "no node is recorded for it, as for instructions of `cond`, and those that ExecuTorch adds"


def is_argument(text: bytes) -> bool:
    """Whether a text may be the second line of a failure, or of its explanation."""
    return text.startswith(EXPLAINED) or ARGUMENT.fullmatch(text) is not None


class InstructionFailure:
    """A line of ExecuTorch's runtime that names an instruction.

    Args:
        stream: the line, and those behind it.

    Attributes:
        stream: as given.
        chain: of the instruction.
        number: of the instruction in its chain.
        operator: that it ran; "" for a call of a backend.
    """

    shows_code = False

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        found = INSTRUCTION.fullmatch(stream.text(0) or b"")
        assert found is not None  # noqa: S101 (else it is no failure)
        self.chain = int(found["chain"] or 0)  # the runtime prints no chain of a call of a backend
        self.number = int(found["number"] or found["call"])
        self.operator = decoded(found["operator"] or b"")

    @property
    def is_explained(self) -> bool:
        """Whether an explanation stands below it."""
        return (self.stream.text(1, is_patient=False) or b"").startswith(EXPLAINED)

    @property
    def what(self) -> str:
        """The failure in words."""
        return f"instruction {self.chain}:{self.number}, {self.operator or 'a call of a backend'}"

    def may_be_of(self, facts: Facts) -> bool:  # noqa: ARG002 (they do not tell)
        """True."""
        return True

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log."""
        return len(text) + (text.count(b"\n") + 2) * self.stream.cost(0)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The line, with an explanation behind it."""
        yield self.stream.written(0, (self.stream.text(0) or b"") + b"\n" + text)

    @property
    def key(self) -> bytes:
        """The same for failures of the same instruction."""
        return digest(self.what)


def answer(places: Places, failure: InstructionFailure, steps: Steps) -> Answer:
    """An ETRecord's answer to a failure.

    Args:
        places: its instructions.
        failure: the failure.
        steps: counts those that it takes.

    Raises:
        ArchiveError: a record that is needed is broken.
        LimitError: more steps are taken than allowed.
    """
    from archive.failures.lookups.instructions import ONLY_CHAIN, runs  # noqa: PLC0415 (few archives have some)

    found = places.numbered(failure.number, steps) if failure.chain == ONLY_CHAIN else []
    known = [one for one in found if bool(one.instruction.delegate) is not bool(failure.operator)]
    nodes = [node for one in known for node in one.nodes]
    if failure.operator:
        nodes = [node for node in nodes if runs(failure.operator, node)]
    if not nodes and _may_be_unrecorded(places, failure, known, steps):
        return Answer(failure, None, ((0, f"{failure.what}: {UNRECORDED}"),), is_possible=True)
    for node in nodes:
        steps.take(sum(map(len, node.site.metadata.values())) // CHARACTERS_A_STEP)
    return answer_of(failure, failure.what, nodes, lambda node: node.text.removesuffix("\n"))


def _may_be_unrecorded(
    places: Places, failure: InstructionFailure, known: Sequence[Place], steps: Steps
) -> bool:
    """Whether an instruction of which no node is recorded may have failed."""
    from archive.failures.lookups.instructions import ADDED, ONLY_CHAIN  # noqa: PLC0415 (the same)

    if failure.chain != ONLY_CHAIN:
        return False
    return (
        failure.operator.startswith(ADDED)
        or any(not one.nodes for one in known)
        or places.has_gap(failure.number)
        or places.has_branch(failure.number, failure.operator, steps)
    )
