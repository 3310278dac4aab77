"""A Python traceback through graph modules of ``torch.fx`` → the same with the source of the failing node.

The code of a graph module has no file. Its frames show the statement of a node, by its name and target::

    File "<eval_with_key>.11", line 15, in forward
      embedding = torch.ops.aten.embedding.default(goods_rows_weight, second)

A node that holds graphs (``cond``, ``while_loop``) runs a graph module of its own, so the next such
frame is of a node in one of these graphs. Module hierarchy and stack trace of the innermost node are
written behind the last frame, before the error's name. Source: ``torch/fx/graph_module.py`` of PyTorch 2.13,
its tracebacks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.failures.failures import Answer
from archive.failures.fits import Fit, fit, is_line
from archive.failures.lookups.nodes import OPERATORS, Node, loaded_nodes
from archive.failures.nodes import (
    UNKNOWN_CALL,
    answer_of,
    digest,
    is_source,
    is_unknown,
    leave_source,
    listed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.failures.streams import Stream
    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite
    from archive.reader.archive import Archive
    from archive.reader.facts import Facts

COLOUR = rb"(?:\x1b\[[\d;]*m)*"
"""Escapes for a terminal, as Python 3.13 prints them."""
EVAL_FRAME = re.compile(
    rb'(?P<prefix>.*?)  File %b"<eval_with_key>\.\d+(?P<traced> from [^"]*)?"%b, line %b(?P<line>\d{1,9})%b, '
    rb"in %b\w+%b" % ((COLOUR,) * 6)
)
"""The heading of a frame; PyTorch tells of code that it traced itself where it did so."""
STATEMENT = re.compile(rb"    (?P<name>[A-Za-z_]\w*)(?: *:[^=]*)? = (?P<code>.*)")
INDENT = b"  "
"""Each line of a traceback's frames begins so."""
MAX_LINES = 10_000
"""Lines of one traceback."""
MAX_FRAMES = 64
"""Frames of graph modules in one traceback: each is in a graph of the node before."""
NOT_SHOWN = (
    "a frame of generated code does not show its statement, so nothing tells which graph failed "
    "(Python before 3.13 shows none of errors that nobody catches; logging.exception does)"
)
INSIDE = "a graph inside of another may have it, and no frame shows the node that holds the graph"
TRACED = "PyTorch may have traced its graph anew, with other names, so nothing tells which node of it failed"
OTHERS = (
    "the node of that name has other arguments here: the failure is another model's, "
    "or PyTorch traced the graph anew"
)
TRANSFORMS = "torch._functorch.predispatch."
"""Functions of ``torch.func.vmap`` and its like, which programs call beside operators."""
MAX_CODE = 1 << 20
"""Bytes of one statement that are looked at."""


class Statement(NamedTuple):
    """The statement of a node, as its frame shows it.

    Attributes:
        name: of the node; "" where no statement is shown.
        code: what the node calls, with its arguments; the same.
        line: of the generated code, from 1.
        is_traced: whether the frame tells that PyTorch traced the code's graph.
    """

    name: str
    code: str
    line: int
    is_traced: bool

    def may_be_of(self, site: NodeSite) -> bool:
        """Whether it has a node's name and operator."""
        return site.name == self.name and self.code.startswith(f"{site.target}(")

    def fit(self, node: Node) -> Fit:
        """Whether it is the statement of a node; one that is not shown may be, by its line."""
        if not self.name:
            return Fit.MAYBE if is_line(self.line, node) else Fit.NO
        if not self.may_be_of(node.site):
            return Fit.NO
        return fit(self.code, self.line, node, is_traced=self.is_traced)

    @property
    def is_of_program(self) -> bool:
        """Whether it calls what nodes of programs call, and no module or other Python function."""
        return not self.name or self.code.startswith((OPERATORS, TRANSFORMS))

    def __str__(self) -> str:
        return (
            f"node {self.name}, {self.code.partition('(')[0]}"
            if self.name
            else f"line {self.line} of generated code"
        )


def statement_in(line: bytes) -> re.Match[bytes] | None:
    """The statement in the line below a frame's heading."""
    return STATEMENT.fullmatch(re.sub(COLOUR, b"", line[:MAX_CODE]))


class EvalTraceback:
    """The frames of a traceback from the first one on that is of a graph module.

    Args:
        stream: their lines, the first frame's heading first.

    Attributes:
        stream: as given.
        statements: those of graph modules, the outermost first.
        length: how many lines belong to frames.
        is_whole: whether each frame shows its statement.
        is_explained: whether the source of the failing node stands behind the frames.
    """

    shows_code = False

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.statements: list[Statement] = []
        self.length = 1
        self.is_whole = True
        heading = EVAL_FRAME.fullmatch(stream.text(0) or b"")
        while self.length < MAX_LINES and (line := stream.text(self.length)) is not None:
            if not line.startswith(INDENT):
                break
            if heading:
                self._add(heading, line)
            heading = EVAL_FRAME.fullmatch(line)
            self.length += 1
        if heading:
            self._add(heading, b"")
        self.is_explained = is_source(stream, self.length)

    def _add(self, heading: re.Match[bytes], line: bytes) -> None:
        """Add a frame by its heading and the line below."""
        found = statement_in(line)
        name, code = (decoded(found["name"]), decoded(found["code"])) if found else ("", "")
        statement = Statement(name, code, int(heading["line"]), heading["traced"] is not None)
        self.is_whole &= found is not None and len(self.statements) < MAX_FRAMES
        if not statement.is_of_program:  # it calls a module: frames below are of that one's graph
            self.statements.clear()
        elif len(self.statements) < MAX_FRAMES:
            self.statements.append(statement)

    @property
    def what(self) -> str:
        """The innermost statement."""
        return str(self.statements[-1])

    def may_be_of(self, facts: Facts) -> bool:  # noqa: ARG002 (they do not tell)
        """True."""
        return True

    @property
    def key(self) -> bytes:
        """The same for tracebacks of the same statements."""
        return digest(
            str(self.is_whole),
            *(f"{one.line} {one.is_traced} {one.name} = {one.code}" for one in self.statements),
        )

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log."""
        return len(text) + (text.count(b"\n") + 2) * self.stream.cost(0)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines of the frames, with an explanation behind the last one."""
        last = self.length - 1
        for at in range(last):
            yield self.stream.line(at).data
        yield self.stream.written(last, (self.stream.text(last) or b"") + b"\n" + text)

    def leave(self) -> None:
        """Let the lines stay as they are: no frame of them is the first one of another traceback."""
        for at in range(1, self.length):
            self.stream.line(at).output = self.stream.line(at).data
        if self.is_explained:
            leave_source(self.stream, self.length + 1)

    def answer(self, archive: Archive) -> Answer:
        """An archive's answer."""
        what = self.what
        possible = self._nodes(archive, self.statements)
        if not self.is_whole:
            return Answer(self, None, ((0, f"{what}: {_why(possible, NOT_SHOWN)}"),), is_possible=True)
        nodes = [node for node, found in possible if found is Fit.YES]
        if not nodes and (possible or self._nodes(archive, self.statements[:-1])):
            return Answer(self, None, ((0, f"{what}: {_why(possible, TRACED)}"),), is_possible=True)
        if not nodes and self._may_begin_inside(archive):
            return Answer(self, None, ((0, f"{what}: {INSIDE}"),), is_possible=True)
        if not nodes and is_unknown(self.statements[-1].code.partition("(")[0], archive):
            return Answer(self, None, ((0, f"{what}: {UNKNOWN_CALL}"),), is_possible=True)
        if not nodes and self._has_namesake(archive):
            return Answer(self, None, ((0, f"{what}: {OTHERS}"),))
        return answer_of(self, what, nodes, lambda node: node.text.removesuffix("\n"))

    def _has_namesake(self, archive: Archive) -> bool:
        """Whether a node has the name and operator of the innermost statement, and not its arguments."""
        return any(self.statements[-1].may_be_of(node.site) for node in loaded_nodes(archive.programs))

    def _may_begin_inside(self, archive: Archive) -> bool:
        """Whether an inner graph has a node of the outermost statement, as below ``torch.fx.Interpreter``."""
        nodes = loaded_nodes(archive.programs)
        return any(node.site.scopes and self.statements[0].fit(node) for node in nodes)

    def _nodes(self, archive: Archive, statements: Sequence[Statement]) -> list[tuple[Node, Fit]]:
        """The nodes that the innermost of some statements may be of; none where there are no statements."""
        found = dict[int, tuple[Node, Fit]]()
        forms = (form for program in archive.programs.values() for form in program.forms)
        for node, one in (each for form in forms for each in _in_program(form, statements)):
            known = found.get(id(node.site))  # forms of a program have most nodes in common
            if known is None or known[1] < one:
                found[id(node.site)] = node, one
        return list(found.values())


def _why(possible: Sequence[tuple[Node, Fit]], why: str) -> str:
    """Why none of the nodes that a failure may be of is told to be the one."""
    return f"may be {listed([node for node, _ in possible])}, but {why}" if possible else why


def _in_program(program: Program, statements: Sequence[Statement]) -> list[tuple[Node, Fit]]:
    """The nodes of a program that the innermost of some statements may be of."""
    holders = {"": Fit.YES}
    found: list[tuple[Node, Fit]] = []
    for at, statement in enumerate(statements):
        inside = (
            Node(program, site)
            for site in program.sites.values()
            if bool(site.scopes) == bool(at) and site.holder in holders
        )
        found = [
            (node, min(one, holders[node.site.holder])) for node in inside if (one := statement.fit(node))
        ]
        holders = {node.site.key: one for node, one in found}
    return found
