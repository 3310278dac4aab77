"""A failure of ``torch.fx.Interpreter`` in a program without metadata → the same with its source.

The interpreter names the node that it executed, and prints ``None`` where no stack trace is recorded::

    While executing %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = …
    Original traceback:
    None

``None`` is replaced by the trace of the node that has this name, target and arguments. Source: PyTorch 2.13,
``Interpreter.run`` in ``torch/fx/interpreter.py`` and ``Node.format_node`` in ``torch/fx/node.py``.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.verbs.logs.failures import Answer, Cause
from archive.verbs.logs.tracebacks import PYTORCH_FILE
from archive.verbs.nodes import found_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.formats.exported.program import NodeSite
    from archive.formats.exported.traces import Frame
    from archive.reader.archive import Archive
    from archive.verbs.logs.failures import Failure
    from archive.verbs.logs.streams import Stream
    from archive.verbs.nodes import Node

EXECUTING = re.compile(
    rb"(?P<prefix>.*?)While executing %(?P<name>\w+) : (?:[^=]*?)\[num_users=\d+\] = "
    rb"call_function\[target=(?P<target>[^\]]+)\]\(args = (?P<arguments>.*)"
)
NAME = re.compile(r"[A-Za-z_]\w*")
HIGHER_ORDER = "torch.ops.higher_order."
VALUE = re.compile(r"%([A-Za-z_]\w*)")
"""A value as the interpreter prints it."""
LIFTED = re.compile(r"(?:p|b|c|obj)_")
"""What stands before the names of parameters, buffers and constants in the program, and not in its module."""
HEADING, UNKNOWN = b"Original traceback:", b"None"
PLACE = 2
"""The line of the failure in whose place its source is written."""
MAX_LISTED = 3


class NodeFailure:
    """Three lines of the interpreter that name a node.

    Args:
        stream: the lines, the one with the node's name first.

    Attributes:
        stream: as given.
        name: the node's name.
        target: what the node calls.
        arguments: what it is called with, as printed.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        found = EXECUTING.fullmatch(stream.text(0) or b"")
        assert found is not None  # noqa: S101 (else it is no failure)
        self.name, self.target = decoded(found["name"]), decoded(found["target"])
        self.arguments = decoded(found["arguments"])

    @property
    def key(self) -> bytes:
        """The same for failures of the same node, target and arguments."""
        return digest(self.name, self.target, self.arguments)

    def strangers(self, site: NodeSite) -> set[str]:
        """The values that it is called with, and a node is not; graphs, which some take, are no values."""
        known = site.arguments
        if known is None or site.target.startswith(HIGHER_ORDER):
            return set()
        return {*VALUE.findall(self.arguments)} - {*known, *(LIFTED.sub("", name, count=1) for name in known)}

    @property
    def is_unexplained(self) -> bool:
        """Whether PyTorch knew no source."""
        return self.stream.text(1) == HEADING and self.stream.text(PLACE) == UNKNOWN

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log."""
        return len(text) + (text.count(b"\n") + 1) * self.stream.cost(PLACE)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The three lines, with an explanation in the place of the last one."""
        yield self.stream.line(0).data
        yield self.stream.line(1).data
        yield self.stream.written(PLACE, text)


def digest(*texts: str) -> bytes:
    """The digest of some texts, which may be long."""
    return blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def answer(archive: Archive, failure: NodeFailure) -> Answer:
    """An archive's answer to a failure of the interpreter."""
    nodes = [
        node
        for node in found_nodes(archive.programs, failure.name)
        if node.site.target == failure.target
        and may_be_of(failure.arguments, node.site)
        and not failure.strangers(node.site)
    ]
    return answer_of(
        failure, f"node {failure.name}, {failure.target}", nodes, lambda node: node.site.trace or ""
    )


def may_be_of(arguments: str, site: NodeSite) -> bool:
    """Whether printed arguments have all the names of a node's."""
    if site.arguments is None:
        return True
    there = set(NAME.findall(arguments))
    if site.scopes:
        return there.issuperset(site.arguments)
    return all(name in there or LIFTED.sub("", name, count=1) in there for name in site.arguments)


def answer_of(failure: Failure, what: str, nodes: Sequence[Node], text: Callable[[Node], str]) -> Answer:
    """The answer to a failure by the nodes that it may be of.

    Args:
        failure: the failure.
        what: its node in words.
        nodes: those that it may be of.
        text: of a node, what explains it.
    """
    if not nodes:
        return Answer(failure, None, ((0, f"{what}: this archive has none: the failure is another model's"),))
    if len({text(node) for node in nodes}) > 1:
        why = f"may be {listed(nodes)}, and nothing tells which"
        return Answer(failure, None, ((0, f"{what}: {why}"),), is_possible=True)
    if nodes[0].site.trace is None:
        return Answer(failure, None, ((0, f"{what}: no source is recorded for it here"),))
    explanation = text(nodes[0]).encode("utf-8", "surrogatepass")
    return Answer(failure, explanation, is_possible=True, cause=_cause(nodes[0]))


def listed(nodes: Sequence[Node]) -> str:
    """The first of some nodes, and how many more there are."""
    more = f" or {len(nodes) - MAX_LISTED} more" if len(nodes) > MAX_LISTED else ""
    return " or ".join(node.label for node in nodes[:MAX_LISTED]) + more


def _cause(node: Node) -> Cause:
    frame = innermost(node.site.frames.frames if node.site.frames else ())
    place = ("", 0) if frame is None else (frame.file, frame.line)
    return Cause(*place, node.hierarchy, "")


def innermost(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame that is not PyTorch's own, or else the innermost; None where there is none."""
    own = (one for one in reversed(frames) if not PYTORCH_FILE.search(one.file))
    return next(own, frames[-1] if frames else None)
