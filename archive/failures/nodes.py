"""A failure of ``torch.fx.Interpreter`` in a program without metadata → the same with its source.

The interpreter names the node that it executed, and prints ``None`` where no stack trace is recorded::

    While executing %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = …
    Original traceback:
    None

``None`` is replaced by the trace of the node that has this name, target and arguments. Source: PyTorch 2.13,
``Interpreter.run`` in ``torch/fx/interpreter.py`` and ``ProgramNode.format_node`` in ``torch/fx/node.py``.

A redacted program has traces, and PyTorch prints what is left of them; the companion's take their places.
"""

from __future__ import annotations

import operator
import re
from hashlib import blake2b
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import several
from archive.base.strings import decoded
from archive.container.names import as_bytes
from archive.debuginfo.frames import BEGINNING
from archive.failures.failure import Answer, Failure, FailureCause, leave
from archive.failures.hashed_words import names_of
from archive.failures.messages import message_of, wording
from archive.failures.operands import contradiction, not_so
from archive.failures.printed import HIERARCHY
from archive.failures.redacted import EXACTLY, HEADER, LooselyTraced, RedactedTraceback, found_at
from archive.formats.exported.printed import LIFTED, Notation, own_name, pieces, text_after
from archive.reader.lacking import why_no_traces
from archive.reader.lookups.nodes import ProgramNode, loaded_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from archive.failures.failure import LoggedLines
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.failures.redacted import Likeness
    from archive.formats.exported.sites import NodeSite
    from archive.reader.archive import Archive

TAIL = rb"(?:\x1b\[[\d;]*m|[^)\w])*+"
"""What may follow a line: the end of a colour, the border of a panel."""
EXECUTING = re.compile(
    rb"(?P<prefix>.*?)While executing %(?P<name>\w+) : (?:[^=]*?)\[num_users=\d+\] = "
    rb"call_function\[target=(?P<target>[^\]]+)\]\((?P<arguments>args = .*)\)(?P<tail>" + TAIL + rb")"
)
HEADING, UNKNOWN = b"Original traceback:", b"None"
FRAME, INDENT = BEGINNING.encode(), b"  "
"""How the lines of a source begin: the first frame may have no indentation."""
FETCHING, WITH_EFFECTS = "operator.getitem", "torch.ops.higher_order.with_effects"
UNKNOWN_CALL = "PyTorch makes it when it loads the program, which the companion by itself doesn't show"
MOST_SAID = 8
"""Lines above in which the error's message is looked for."""
PLACE = 2
"""The line of the failure that its source replaces."""
NOT_HERE = "its redacted trace isn't this node's: the failure is another model's, or version's"
NAME = re.compile(r"[A-Za-z_]\w*")


class ExecutedNode(NamedTuple):
    """A node as the interpreter prints it."""

    name: str
    target: str
    arguments: str

    @classmethod
    def of(cls, line: re.Match[bytes]) -> Self:
        """The node in a line that ``EXECUTING`` matches."""
        return cls(decoded(line["name"]), decoded(line["target"]), decoded(line["arguments"]))

    def is_of(self, site: NodeSite, *, is_in_module: bool = False) -> bool:
        """Whether a node has this name, target and arguments; true if its arguments are not known.

        Args:
            is_in_module: whether it may be printed as part of a module inside of the program's, as
                ``torch.export.unflatten`` makes one, where parameters have shorter names.
        """
        # Python's operators are recorded by the module that they are defined in, `_operator`.
        if site.name != self.name or site.target not in (self.target, f"_{self.target}"):
            return False
        if site.record is None:
            return True
        parts = pieces(site.record.get("inputs", ()), Notation.MESSAGE)
        if parts is None:
            return may_have(self.arguments, site)

        def printed(name: str) -> str:
            return f"%{own_name(name, site.inputs, is_in_module=is_in_module)}"

        return text_after(self.arguments, parts, printed) == ""

    def __str__(self) -> str:
        return f"node {self.name}, {self.target}"


class NodeFailure(Failure):
    """Three lines of the interpreter that name a node.

    Args:
        above: the lines above in the log, the nearest first.

    Attributes:
        said: the error's own message, the last line first.
    """

    def __init__(self, stream: LogStream, above: Iterable[bytes] = ()) -> None:
        super().__init__(stream)
        line = EXECUTING.fullmatch(stream.text(0) or b"")
        assert line is not None  # noqa: S101 (else it isn't a failure)
        self.node = ExecutedNode.of(line)
        texts = [text for one in islice(above, MOST_SAID) if (text := stream.text_of(one)) is not None]
        self.said = tuple(takewhile(bool, dropwhile(operator.not_, map(decoded, texts))))
        below = [*takewhile(lambda line: not line.startswith(decoded(INDENT)), self.said)]
        self.message = message_of(below[-1].encode()) if below else ""

    @property
    def what(self) -> str:
        return f"node {self.node.name}"

    @property
    def key(self) -> object:
        return object() if self.is_bare else digest(*self.node, *self.said)

    def answer(self, model: OneModel) -> Answer | None:
        if self.is_explained and (redacted := redacted_answer(model, self)):
            return redacted
        self.leave()
        return answer(model.archive, self) if self.is_unexplained and model.archive.programs else None

    def shows_model(self) -> bool:
        """Whether the log lacks its source, or has what may be left of one; whatever it has stays."""
        self.leave()
        return self.is_unexplained or self.is_bare

    def has_source(self, above: bytes) -> bool:  # noqa: ARG002 (its own lines say so)
        return self.is_explained

    def leave(self) -> None:
        """Leave the lines of the source as they are: none of its frames begins a traceback."""
        if self.stream.text(1) == HEADING:
            leave_source(self.stream, PLACE)

    @property
    def is_bare(self) -> bool:
        """Whether PyTorch printed frames of a trace, and no line of code below them."""
        at = PLACE
        while HEADER.fullmatch(self.stream.text(at, is_patient=False) or b""):
            at += 1
        ends = not (self.stream.text(at, is_patient=False) or b"").startswith(INDENT)
        return self.is_explained and at > PLACE and ends

    @property
    def is_explained(self) -> bool:
        """Whether PyTorch printed a source."""
        return self.stream.text(1) == HEADING and self.stream.text(PLACE) != UNKNOWN

    @property
    def is_unexplained(self) -> bool:
        """Whether PyTorch knew no source."""
        return self.stream.text(1) == HEADING and self.stream.text(PLACE) == UNKNOWN

    def size(self, text: bytes) -> int:
        return len(text) + (text.count(b"\n") + 1) * self.stream.cost(PLACE)

    def explained(self, text: bytes) -> Iterator[bytes]:
        yield self.stream.line(0).data
        yield self.stream.line(1).data
        yield self.stream.written(PLACE, text)


def may_have(arguments: str, site: NodeSite) -> bool:
    """Whether printed arguments have all the names of a node's."""
    there = set(NAME.findall(arguments))
    return all(name in there or LIFTED.sub("", name, count=1) in there for name in site.arguments or ())


def is_unknown(target: str, archive: Archive) -> bool:
    """Whether a program may have a call that a companion by itself doesn't show: a fetch, or a token."""
    unrecorded = [
        site
        for program in archive.programs.values()
        for site in program.sites.values()
        if site.record is None
    ]
    return bool(unrecorded) and (
        target == FETCHING or any(site.target == WITH_EFFECTS for site in unrecorded)
    )


def digest(*texts: str) -> bytes:
    """The digest of some texts, which may be long."""
    return blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def answer(archive: Archive, failure: NodeFailure) -> Answer:
    """An archive's answer to a failure of the interpreter."""
    named = [node for node in loaded_nodes(archive.programs) if failure.node.name == node.site.name]
    nodes = [node for node in named if failure.node.is_of(node.site)]
    nodes = nodes or [node for node in named if failure.node.is_of(node.site, is_in_module=True)]
    what = str(failure.node)
    if not nodes and is_unknown(failure.node.target, archive):
        return Answer(failure, None, ((0, f"{what}: {UNKNOWN_CALL}"),), is_possible=True)
    against = {node: why for node in nodes if (why := contradiction(node.site, failure.said, is_fixed=False))}
    if against and len(against) == len(nodes):
        node, why = next(iter(against.items()))
        return Answer(failure, None, ((0, not_so(what, why, node)),))
    nodes = [node for node in nodes if node not in against]
    return answer_of(archive, failure, what, nodes, lambda node: node.site.trace or "")


def redacted_answer(model: OneModel, failure: NodeFailure) -> Answer | None:
    """The answer to a failure that has a source; None where the log shows no redacted trace."""
    archive = model.archive
    if not archive.programs:
        return None
    bare, sites = archive.redacted, (site for one in archive.programs.values() for site in one.sites.values())
    files = {as_bytes(frame.file) for site in sites if site.frames for frame in site.frames.frames}
    like = LooselyTraced(files, model.made(names_of))
    nodes = [
        (ProgramNode(form, site), (name, number), path)
        for name, program in archive.programs.items()
        for number, form in enumerate(program.forms)
        for path, site in form.sites.items()
        if failure.node.is_of(site)
    ]
    shown = []
    if bare is not None:
        traces = {
            (form, path): bare.programs[form[0]].forms[form[1]].sites[path].trace for _, form, path in nodes
        }
        printed = [(node, traces[form, path]) for node, form, path in nodes]
        shown = _shown(failure.stream, failure.message, printed, EXACTLY)
    printed = [(node, node.site.trace) for node, _, _ in nodes]
    shown = shown or _shown(failure.stream, failure.message, printed, like)
    what, candidates = str(failure.node), [node for node, _ in shown]
    if not shown and nodes and failure.is_bare:
        failure.leave()
        return Answer(failure, None, ((0, f"{what}: {NOT_HERE}"),))
    if all(_stop(failure.stream, node.site.trace or "", EXACTLY) for node in candidates):
        return None  # it shows the original
    return answer_of(archive, shown[0][1], what, candidates, lambda node: node.site.trace or "")


def _shown(
    stream: LogStream, said: str, traces: Iterable[tuple[ProgramNode, str | None]], like: Likeness
) -> list[tuple[ProgramNode, RedactedTraceback]]:
    """The nodes whose trace a log shows, with its lines, and the message above them."""
    stops = ((node, _stop(stream, trace, like)) for node, trace in traces if trace)
    return [(node, RedactedTraceback(stream, PLACE, stop, said)) for node, stop in stops if stop]


def _stop(stream: LogStream, trace: str, like: Likeness) -> int:
    """The line after a trace; 0 where the log shows another trace, or more frames."""
    traceback = found_at(stream, PLACE, trace.encode("utf-8", "surrogatepass"), like)
    following = stream.text(traceback.stop, is_patient=False) if traceback else None
    return traceback.stop if traceback and not (following or b"").startswith((INDENT, FRAME)) else 0


def is_source(stream: LogStream, at: int) -> bool:
    """Whether a log has a node's source from a line on, as an explanation writes it."""
    return (stream.text(at) or b"").startswith(HIERARCHY) and stream.text(at + 1) == HEADING


def leave_source(stream: LogStream, at: int) -> None:
    """Leave the frames of a source as they are.

    Args:
        at: the line after the source's heading, or the heading itself.
    """
    first = at + (stream.text(at) == HEADING)
    is_frame = (stream.text(first, is_patient=False) or b"").startswith(FRAME)
    if is_frame:
        stream.line(first).output = stream.line(first).data
    leave(stream, first + is_frame, lambda line: line.startswith(INDENT))


def answer_of(
    archive: Archive,
    failure: LoggedLines,
    what: str,
    nodes: Sequence[ProgramNode],
    text: Callable[[ProgramNode], str],
) -> Answer:
    """The answer to a failure by the nodes that it may be of.

    Args:
        what: its node in words.
        text: gives a node's explanation.
    """
    if not nodes:
        return Answer(failure, None, ((0, f"{what}: this archive has none: the failure is another model's"),))
    if len({text(node) for node in nodes}) > 1:
        why = f"may be {listed(nodes)}, and nothing says which"
        return Answer(failure, None, ((0, f"{what}: {why}"),), is_possible=True)
    if nodes[0].site.trace is None:
        why = why_no_traces(archive)
        note = f"{what}: {why or 'no source is recorded for it here'}"
        return Answer(failure, None, ((0, note),), is_possible=bool(why), is_split=bool(why))
    node = nodes[0]
    trace = node.site.frames
    place = (trace.of_model.file, trace.of_model.line) if trace else ("", 0)
    explanation = text(node).encode("utf-8", "surrogatepass")
    cause = FailureCause(*place, node.hierarchy, wording(failure.message))
    return Answer(failure, explanation, is_possible=True, cause=cause)


def listed(nodes: Sequence[ProgramNode]) -> str:
    """The first of some nodes, and how many more there are."""
    return several([node.label for node in nodes], word="or")
