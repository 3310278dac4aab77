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
from archive.verbs.logs.nodes import NAME, answer_of, may_be_of
from archive.verbs.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.formats.exported.program import NodeSite, Program
    from archive.reader.archive import Archive
    from archive.verbs.logs.failures import Answer
    from archive.verbs.logs.streams import Stream

EVAL_FRAME = re.compile(rb'(?P<prefix>.*?)  File "<eval_with_key>\.\d+", line \d+, in \w+')
STATEMENT = re.compile(rb"    (?P<name>[A-Za-z_]\w*)(?: *:[^=]*)? = (?P<code>.*)")
MADE_UP = re.compile(r"arg\d+(_\d+)?|[a-z]{1,2}\d*")
INDENT = b"  "
"""Each line of a traceback's frames begins so."""
MAX_LINES = 10_000
"""Lines of one traceback."""
MAX_FRAMES = 64
"""Frames of graph modules in one traceback: each is in a graph of the node before."""
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
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.statements: list[Statement] = []
        self.length = 1
        is_eval = True
        while self.length < MAX_LINES and (line := stream.text(self.length)) is not None:
            if not line.startswith(INDENT):
                break
            if (
                is_eval
                and len(self.statements) < MAX_FRAMES
                and (found := STATEMENT.fullmatch(line[:MAX_CODE]))
            ):
                self.statements.append(Statement(decoded(found["name"]), decoded(found["code"])))
            is_eval = EVAL_FRAME.fullmatch(line) is not None
            self.length += 1

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

    def nodes(self, programs: Mapping[str, Program]) -> list[Node]:
        """The nodes of the innermost statement: several where nothing tells which."""
        return [Node(program, site) for program in programs.values() for site in self._in(program)]

    def answer(self, archive: Archive) -> Answer:
        """An archive's answer."""
        nodes = self.nodes(archive.programs)
        return answer_of(self, str(self.statements[-1]), nodes, lambda node: node.text.removesuffix("\n"))

    def _in(self, program: Program) -> list[NodeSite]:
        """The nodes of a program that the innermost statement may be of."""
        found: list[NodeSite] = []
        for at, statement in enumerate(self.statements):
            holders = {site.key for site in found}
            found = [
                site
                for site in program.sites.values()
                if statement.is_of(site) and (site.holder in holders if at else not site.scopes)
            ]
        return _told_apart(found, self.statements[-1].code) if found else found


def _told_apart(found: list[NodeSite], code: str) -> list[NodeSite]:
    """The only one whose arguments the code has, or all: PyTorch may have given the values other names.

    Names that it makes up (``arg0_1``) prove nothing.
    """
    there = set(NAME.findall(code))
    known = {site.key: set(site.arguments) for site in found if site.arguments is not None}
    fitting = [site for site in found if site.key in known and there >= known[site.key]]
    if len(fitting) != 1:
        return found
    others = set[str]().union(*(names for key, names in known.items() if key != fitting[0].key))
    proves = any(not MADE_UP.fullmatch(name) for name in known[fitting[0].key] - others)
    return fitting if proves else found
