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
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.verbs.logs.failures import Answer
from archive.verbs.logs.nodes import NAME, answer_of, digest, listed, may_be_of
from archive.verbs.nodes import OPERATORS, Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.formats.exported.program import NodeSite, Program
    from archive.reader.archive import Archive
    from archive.verbs.logs.streams import Stream

EVAL_FRAME = re.compile(rb'(?P<prefix>.*?)  File "<eval_with_key>\.\d+", line \d+, in \w+')
STATEMENT = re.compile(rb"    (?P<name>[A-Za-z_]\w*)(?: *:[^=]*)? = (?P<code>.*)")
TRACED_ANEW = re.compile(r"\b(?:arg|primals_)(\d{1,9})(?:_\d+)?\b")
"""An input of a graph that PyTorch traced anew, and its place among the inputs."""
MADE_UP = re.compile(r"arg\d+(_\d+)?|[a-z]{1,2}\d*")
INDENT = b"  "
"""Each line of a traceback's frames begins so."""
MAX_LINES = 10_000
"""Lines of one traceback."""
MAX_FRAMES = 64
"""Frames of graph modules in one traceback: each is in a graph of the node before."""
NOT_SHOWN = "a frame of generated code does not show its statement, so that nothing tells which graph failed"
INSIDE = "a graph inside of another may have it, and no frame shows the node that holds the graph"
TRACED = "PyTorch traced its graph anew, with other names, so that nothing tells which node of it failed"
MAX_CODE = 1 << 20
"""Bytes of one statement that are looked at."""


class Statement:
    """The statement of a node, as its frame shows it.

    Args:
        name: of the node.
        code: what the node calls, with its arguments.
    """

    def __init__(self, name: str, code: str) -> None:
        self.name, self.code = name, code

    def is_of(self, site: NodeSite) -> bool:
        """Whether it may be the statement of a node."""
        fits = site.name == self.name and self.code.startswith(f"{site.target}(")
        # A graph inside of another one may have been traced anew, with other names.
        return fits and (bool(site.scopes) or may_be_of(self.code, site))

    @property
    def is_of_program(self) -> bool:
        """Whether it calls an operator, as the nodes of programs do, and no module or Python function."""
        return self.code.startswith(OPERATORS)

    def has_arguments_of(self, site: NodeSite) -> bool:
        """Whether it has the arguments of a node; false where nothing tells."""
        if site.arguments is None:
            return not site.scopes or not TRACED_ANEW.search(self.code)
        return not site.scopes or self.names_in(site).issuperset(site.arguments)

    def names_in(self, site: NodeSite) -> set[str]:
        """Its names, as they are in the graph of a node.

        Where PyTorch traces an inner graph anew, the graph's inputs get names that count them from 0.
        """
        counted = (int(number) for number in TRACED_ANEW.findall(self.code))
        return {*NAME.findall(self.code), *(site.inputs[at] for at in counted if at < len(site.inputs))}

    def __str__(self) -> str:
        return f"node {self.name}, {self.code.partition('(')[0]}"


class EvalTraceback:
    """The frames of a traceback from the first one on that is of a graph module.

    Args:
        stream: their lines, the first frame's heading first.

    Attributes:
        stream: as given.
        statements: those of graph modules, the outermost first.
        length: how many lines belong to frames.
        is_whole: whether each frame shows its statement.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.statements: list[Statement] = []
        self.length = 1
        self.is_whole = True
        is_eval = True
        while self.length < MAX_LINES and (line := stream.text(self.length)) is not None:
            if not line.startswith(INDENT):
                break
            if is_eval:
                self._add(line)
            is_eval = EVAL_FRAME.fullmatch(line) is not None
            self.length += 1
        self.is_whole &= not is_eval

    def _add(self, line: bytes) -> None:
        """Add the line below a frame's heading."""
        found = STATEMENT.fullmatch(line[:MAX_CODE])
        statement = found and Statement(decoded(found["name"]), decoded(found["code"]))
        if statement is None or len(self.statements) == MAX_FRAMES:
            self.is_whole = False
        elif statement.is_of_program:
            self.statements.append(statement)
        else:  # it calls a module: frames below are of that one's graph
            self.statements.clear()

    @property
    def key(self) -> bytes:
        """The same for tracebacks of the same statements."""
        return digest(str(self.is_whole), *(f"{one.name} = {one.code}" for one in self.statements))

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

    def answer(self, archive: Archive) -> Answer:
        """An archive's answer."""
        what = str(self.statements[-1])
        if not self.is_whole:
            return Answer(self, None, ((0, f"{what}: {NOT_SHOWN}"),), is_possible=True)
        possible = self._nodes(archive, self.statements)
        nodes = [node for node in possible if self.statements[-1].has_arguments_of(node.site)]
        if not nodes and (possible or self._nodes(archive, self.statements[:-1])):
            why = f"may be {listed(possible)}, but {TRACED}" if possible else TRACED
            return Answer(self, None, ((0, f"{what}: {why}"),), is_possible=True)
        if not nodes and self._may_begin_inside(archive):
            return Answer(self, None, ((0, f"{what}: {INSIDE}"),), is_possible=True)
        return answer_of(self, what, nodes, lambda node: node.text.removesuffix("\n"))

    def _may_begin_inside(self, archive: Archive) -> bool:
        """Whether an inner graph has a node of the outermost statement, as below ``torch.fx.Interpreter``."""
        sites = (site for program in archive.programs.values() for site in program.sites.values())
        return any(site.scopes and self.statements[0].is_of(site) for site in sites)

    def _nodes(self, archive: Archive, statements: Sequence[Statement]) -> list[Node]:
        """The nodes that the innermost of some statements may be of; none where there are no statements."""
        return [
            Node(program, site)
            for program in archive.programs.values()
            for site in _in_program(program, statements)
        ]


def _in_program(program: Program, statements: Sequence[Statement]) -> list[NodeSite]:
    """The nodes of a program that the innermost of some statements may be of."""
    found: list[NodeSite] = []
    for at, statement in enumerate(statements):
        holders = {site.key for site in found}
        found = [
            site
            for site in program.sites.values()
            if statement.is_of(site) and (site.holder in holders if at else not site.scopes)
        ]
    return _told_apart(found, statements[-1]) if found else found


def _told_apart(found: list[NodeSite], statement: Statement) -> list[NodeSite]:
    """The only one whose arguments the code has, or all: PyTorch may have given the values other names.

    Names that it makes up (``arg0_1``) prove nothing.
    """
    there = statement.names_in(found[0])
    known = {site.key: set(site.arguments) for site in found if site.arguments is not None}
    fitting = [site for site in found if site.key in known and there >= known[site.key]]
    if len(fitting) != 1:
        return found
    others = set[str]().union(*(names for key, names in known.items() if key != fitting[0].key))
    proves = any(not MADE_UP.fullmatch(name) for name in known[fitting[0].key] - others)
    return fitting if proves else found
