"""A Python traceback through graph modules of ``torch.fx`` → the same with the source of the failing node.

The code of a graph module has no file. Its frames show the statement of a node, by its name and target::

    File "<eval_with_key>.11", line 15, in forward
      embedding = torch.ops.aten.embedding.default(goods_rows_weight, second)

A node that holds graphs (``cond``, ``while_loop``) runs a graph module of its own, so the next such
frame is of a node in one of these graphs. Module hierarchy and stack trace of the innermost node are
written after the last frame, before the error's name. Source: the tracebacks of ``torch/fx/graph_module.py``
in PyTorch 2.13.

The statements lead from the program's own graph inwards. If the interpreter ran that graph, no frame shows
its node: see :mod:`~archive.failures.held_graphs`.

PyTorch gives the nodes of a graph new names where it traces the graph again: a loop whose gradient is asked
for, what ``torch.compile`` compiles. The file may have another node of that name, and an inner graph may
have a node with the very same statement. So a statement counts as a node's only if

* it has the node's name, operator and arguments, and stands in the line that the node has in code of this
  graph; or
* its arguments are inputs of a graph that was traced again, by their numbers, and no other node has these.

A companion has no arguments, and doesn't know every line before a node's: the line must not come before those
that it knows.

Python before 3.13 shows no statement where nobody catches the error. The operator is not known then, and the
message rules nodes of the line out (:mod:`~archive.failures.messages`). If it leaves a single one, whose
operator is known to print it, that one is explained, and a note says by what.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import one_line
from archive.base.strings import decoded
from archive.failures.failure import MAX_LINES, Answer, Failure
from archive.failures.held_graphs import COLOUR, Caller, GraphCall, call_above, holder_below
from archive.failures.messages import contradicted, known_message, message_of, prints
from archive.failures.nodes import (
    MOST_SAID,
    TAIL,
    UNKNOWN_CALL,
    answer_of,
    digest,
    is_source,
    is_unknown,
    leave_source,
    listed,
    may_have,
)
from archive.failures.operands import contradiction, not_so
from archive.failures.printed import HANDLES_NOT_FOUND, HIERARCHY
from archive.formats.exported.loaded import HIGHER_ORDER, OPERATORS
from archive.formats.exported.printed import FIRST_LINE, TAKEN, Notation, own_name, pieces, text_after
from archive.reader.lookups.nodes import DELEGATE, ProgramNode, loaded_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.failures.log.streams import LogStream
    from archive.failures.nodes import ExecutedNode
    from archive.failures.one_model import OneModel
    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite
    from archive.reader.archive import Archive

EVAL_FRAME = re.compile(
    rb'(?P<prefix>.*?)  File %b"<eval_with_key>\.\d+(?P<traced> from [^"]*)?"%b, line %b(?P<line>\d{1,9})%b, '
    rb"in (?:\w+|%b\w+%b)(?P<tail>%b)" % (*((COLOUR,) * 6), TAIL)
)
"""The heading of a frame. If PyTorch traced the code itself, it says where."""
STATEMENT = re.compile(rb"    (?P<name>[A-Za-z_]\w*)(?: *:[^=]*)? = (?P<code>.*)")
INDENT = b"  "
"""How each line of a traceback's frames begins."""
MAX_FRAMES = 64
"""Frames of graph modules in one traceback: each is in a graph of the node before."""
NOT_SHOWN = (
    "a frame of generated code does not show its statement, so nothing says which graph failed "
    "(Python before 3.13 shows none for errors that nobody catches; logging.exception does)"
)
BY_MESSAGE = "by its line and the message: no statement is shown"
INSIDE = "a graph inside another may have it, and no frame shows the node that holds the graph"
TRACED = "PyTorch may have traced its graph again, with other names, so nothing says which node of it failed"
OTHERS = (
    "the node of that name has other arguments here: the failure is another model's, "
    "or PyTorch traced the graph again"
)
TRANSFORMS = "torch._functorch.predispatch."
"""Functions of ``torch.func.vmap`` and the like, which programs call besides operators."""
MAX_CODE = 1 << 20
"""Bytes of one statement that are looked at."""
TRACED_AGAIN = re.compile(r"\b(?:(?:arg|primals_|tangents_)\d{1,9}(?:_\d+)?|l_\w+_)\b")
"""An input of a graph that PyTorch traced again."""
DELETED = re.compile(r"(?:;  [\w =]+)?")
"""The values that a statement is the last to use."""
GUARDS = (0, 1)
"""Lines that a module's code may have for its guards."""
VALUE = re.compile(r"(?<![\w.'])(?!(?:True|False|None|inf|nan)\b)[A-Za-z_]\w*(?![\w.('])(?! = )")
"""A value among the arguments of a statement."""
NUMBER = re.compile(r"_\d+$")
NEVER = r"(?!)"


class EvalFailure(Failure):
    """The frames of a traceback from the first one on that is of a graph module.

    Args:
        above: the lines above in the log, the nearest first.

    Attributes:
        statements: those of graph modules, the outermost first.
        is_whole: whether each frame shows its statement.
        is_held: whether the outermost statement is of a graph that a node holds, which no frame shows.
        holder: that node, as the interpreter prints it; None where the log doesn't show it.
        said: the error's message, as far as it is in the lines below.
    """

    def __init__(self, stream: LogStream, above: Iterable[bytes] = ()) -> None:
        super().__init__(stream)
        self.statements: list[NodeStatement] = []
        self.is_held = False
        self._call = GraphCall(Caller.UNSEEN)
        self.length = 1
        self.is_whole = True
        self._read(above)
        self.holder: ExecutedNode | None = None
        if not self._call.is_interpreted:  # else what was executed is inside of the last statement
            outermost = self.statements[0].call.caller if self.statements else Caller.MODULE
            if self.is_held or outermost is Caller.UNSEEN:
                self.holder = holder_below(stream, self.length)
                self.is_held |= self.holder is not None
        self.said = () if self._call.is_interpreted else tuple(self._message())
        self.message = message_of(self.said[0].encode()) if self.said else ""
        self.last = self.length - 1
        self.is_explained = self._has_source()
        self._has_handles = bool(self.statements) and self._names_handles()

    def _read(self, above: Iterable[bytes]) -> None:
        """Add the frames, and set ``length`` to the number of their lines."""
        self._call = call_above(map(self.stream.text_of, above))
        heading = EVAL_FRAME.fullmatch(self.stream.text(0) or b"")
        while self.length < MAX_LINES and (line := self.stream.text(self.length)) is not None:
            if not line.startswith(INDENT):
                break
            if heading:
                self._add(heading, line)
            heading = EVAL_FRAME.fullmatch(line)
            self._call = self._call.then(line)
            self.length += 1
        if heading:
            self._add(heading, b"")

    def _has_source(self) -> bool:
        """Whether the source of the node stands below the frames."""
        return is_source(self.stream, self.length)

    def _add(self, heading: re.Match[bytes], line: bytes) -> None:
        """Add a frame by its heading and the line below."""
        call, self._call = self._call, GraphCall()
        if call.is_interpreted:
            self.statements.clear()
        if not self.statements:
            self.is_held = call.caller in (Caller.INTERPRETER, Caller.OPERATOR)
        shown = statement_in(line)
        name, code = (decoded(shown["name"]), decoded(shown["code"])) if shown else ("", "")
        statement = NodeStatement(name, code, int(heading["line"]), heading["traced"] is not None, call)
        self.is_whole &= shown is not None and len(self.statements) < MAX_FRAMES
        if not statement.is_of_program:  # it calls a module: frames below are of that one's graph
            self.statements.clear()
        elif len(self.statements) < MAX_FRAMES:
            self.statements.append(statement)

    def _names_handles(self) -> bool:
        """Whether a lowered part failed, and its error names debug handles, which lead to the operation."""
        if not self.statements[-1].code.startswith(f"{DELEGATE}("):
            return False
        below = (self.stream.text(at, is_patient=False) for at in range(self.length, self.length + MOST_SAID))
        return any(text and (HANDLES_NOT_FOUND.match(text) or HIERARCHY in text) for text in below)

    def _message(self) -> Iterator[str]:
        """The lines of the error's message, up to an empty one."""
        for at in range(self.length, self.length + MOST_SAID):
            text = self.stream.text(at, is_patient=at == self.length)
            if not text:
                return
            yield decoded(re.sub(COLOUR, b"", text))

    @property
    def is_left(self) -> bool:
        """Whether it stays as it is: it has its source, names handles, or failed in no node of a program."""
        return self.is_explained or self._has_handles or not self.statements

    def shows_model(self) -> bool:
        """Whether it doesn't stay as it is."""
        return not self.is_left

    def has_source(self, above: bytes) -> bool:  # noqa: ARG002 (its own lines say so)
        """Whether it stays as it is."""
        return self.is_left

    @property
    def what(self) -> str:
        return str(self.statements[-1])

    @property
    def key(self) -> bytes:
        return digest(
            str((self.is_whole, self.is_held, self.holder, self.said)),
            *(
                f"{each.line} {each.is_traced} {each.call.branch} {each.name} = {each.code}"
                for each in self.statements
            ),
        )

    def leave(self) -> None:
        """Leave the lines as they are: none of their frames begins another traceback."""
        for at in range(1, self.length):
            self.stream.line(at).output = self.stream.line(at).data
        if self.is_explained:
            leave_source(self.stream, self.length + 1)

    def answer(self, model: OneModel) -> Answer | None:
        archive = model.archive
        if self.is_left or not archive.programs:
            return None
        innermost, outermost = self.statements[-1], self.statements[0]
        possible = self._nodes(archive, self.statements)
        against = {
            node: why for node, _ in possible if (why := contradiction(node.site, self.said, is_fixed=False))
        }
        if self.is_whole and against and len(against) == len(possible):
            node, why = next(iter(against.items()))
            return Answer(self, None, ((0, not_so(self.what, why, node)),))
        possible = [(node, fits) for node, fits in possible if node not in against]
        certain = [node for node, fits in possible if fits is Fit.YES]
        if self.is_whole and certain:
            return answer_of(archive, self, self.what, certain, lambda node: node.text.removesuffix("\n"))
        programs, is_possible = archive.programs, True
        if not self.is_whole:
            if self._is_unshown:
                possible = [each for each in possible if not contradicted(each[0].site.target, self._known)]
            if self._is_unshown and (only := self._by_message(archive, possible)):
                return only
            why = _why(possible, NOT_SHOWN)
        elif possible or self._nodes(archive, self.statements[:-1]):
            why = _why(possible, TRACED)
        # An inner graph has a node with the outermost statement, as below torch.fx.Interpreter.
        elif any(node.site.scopes and outermost.fit(node) for node in loaded_nodes(programs)):
            why = INSIDE
        elif is_unknown(innermost.code.partition("(")[0], archive):
            why = UNKNOWN_CALL
        elif any(innermost.may_be_of(node.site) for node in loaded_nodes(programs)):
            why, is_possible = OTHERS, False
        else:
            return answer_of(archive, self, self.what, [], lambda node: node.text)
        return Answer(self, None, ((0, f"{self.what}: {why}"),), is_possible=is_possible)

    @property
    def _is_unshown(self) -> bool:
        """Whether the innermost frame is there, of a graph that the file has, and shows no statement."""
        is_traced = any(each.is_traced for each in self.statements)
        return not (self.statements[-1].name or is_traced or len(self.statements) == MAX_FRAMES)

    @property
    def _known(self) -> str:
        """The message, if it is one of PyTorch's operators; "" for another one."""
        return known_message(self.said[0]) if self.said else ""

    def _by_message(self, archive: Archive, possible: Sequence[tuple[ProgramNode, Fit]]) -> Answer | None:
        """The answer of the only node that may have printed the message, and does; else None."""
        if len(possible) != 1 or self.statements[0].call.caller is Caller.UNSEEN:
            return None
        node, _ = possible[0]
        if not prints(node.site.target, self._known):
            return None
        answer = answer_of(archive, self, self.what, [node], lambda node: node.text.removesuffix("\n"))
        note = f"{self.what}: taken as {one_line(node.label)}, {BY_MESSAGE}"
        return answer if answer.text is None else replace(answer, notes=(*answer.notes, (0, note)))

    def _nodes(self, archive: Archive, statements: Sequence[NodeStatement]) -> list[tuple[ProgramNode, Fit]]:
        """The nodes that the innermost of some statements may be of; none where there are no statements."""
        best = dict[int, tuple[ProgramNode, Fit]]()
        forms = (form for program in archive.programs.values() for form in program.forms)
        for node, fits in (each for form in forms for each in self._in_program(form, statements)):
            known = best.get(id(node.site))  # forms of a program have most nodes in common
            if known is None or known[1] < fits:
                best[id(node.site)] = node, fits
        return list(best.values())

    def _in_program(
        self, program: Program, statements: Sequence[NodeStatement]
    ) -> list[tuple[ProgramNode, Fit]]:
        """The nodes of a program that the innermost of some statements may be of."""
        holders = {"": Fit.YES}
        if self.is_held:
            holder, sites = self.holder, program.sites.items()
            holders = {
                key: Fit.YES for key, site in sites if holder and holder.is_of(site, is_in_module=True)
            }
        fitting: list[tuple[ProgramNode, Fit]] = []
        for at, statement in enumerate(statements):
            is_inner = self.is_held or at > 0
            inside = (
                ProgramNode(program, site)
                for site in program.sites.values()
                if bool(site.scopes) == is_inner
                and site.holder in holders
                and (not is_inner or statement.call.may_call(site.scopes[-1].name))
            )
            fitting = [
                (node, min(fits, holders[node.site.holder]))
                for node in inside
                if (fits := statement.fit(node))
            ]
            holders = {node.site.key: fits for node, fits in fitting}
        return fitting


def _why(possible: Sequence[tuple[ProgramNode, Fit]], why: str) -> str:
    """Why it is not known which of the possible nodes failed."""
    return f"may be {listed([node for node, _ in possible])}, but {why}" if possible else why


# --- whether a statement is a node's


class Fit(IntEnum):
    """Whether a statement is a node's."""

    NO = 0
    MAYBE = 1
    YES = 2


def fit(code: str, line: int, node: ProgramNode, *, is_traced: bool) -> Fit:
    """Whether a statement that has a node's name, and calls its operator, is the node's.

    The statements of the graphs around the node's must be known: only in the graphs of a known graph do
    inputs keep their order.

    Args:
        line: its line in the generated code, from 1.
        is_traced: whether the code is known to be of a graph that was traced again.
    """
    site = node.site
    is_again = is_traced or TRACED_AGAIN.search(code) is not None
    if site.record is None:
        return Fit.MAYBE if is_again else Fit(2 * may_be_line(line, node))
    if not is_traced and _is_call(code, site):
        return Fit.YES if is_line(line, node) else Fit.MAYBE
    if site.scopes and _is_only_call(code, node):
        return Fit.YES
    return Fit.MAYBE if is_again or (site.scopes and _may_be_traced(code, node)) else Fit.NO


def _is_call(code: str, site: NodeSite, name: Callable[[str], str] | None = None) -> bool:
    """Whether a statement has a node's operator and arguments.

    Args:
        name: gives the expression for a value's name; by default the value's own name.
    """
    parts = pieces((site.record or {}).get("inputs", ()), Notation.CODE)
    if parts is None:
        return name is None and may_have(code, site)
    expression = name or (lambda value: own_name(value, site.inputs))
    rest = text_after(code, [f"{site.target}(", *parts, ")"], expression)
    return rest is not None and DELETED.fullmatch(rest) is not None


def may_be_line(line: int, node: ProgramNode) -> bool:
    """Whether a node may have this line: the lines known to come before it leave room.

    Code has a line for each node of the file, and for each graph that one of these takes.
    """
    return node.program.lines[node.site.key] <= line - FIRST_LINE


def is_line(line: int, node: ProgramNode) -> bool:
    """Whether a node has this line in its graph's code, in some form of its program."""
    site, program = node.site, node.program
    if site.record is None:
        return False
    before = line - FIRST_LINE - program.lines[site.key]
    if site.scopes:
        return before == 0
    # An input that is renamed has a line of its own. In a module, inputs are unpacked in one line, and
    # parameters, buffers and constants are fetched in one each.
    before -= sum(name in TAKEN for name in site.inputs)
    if program.is_loaded is not False and before == 0:
        return True
    return not program.is_loaded and program.lifted is not None and before - 1 - program.lifted in GUARDS


def _is_only_call(code: str, node: ProgramNode) -> bool:
    """Whether a statement of an inner graph that was traced again can be of this node only."""
    site = node.site
    others = [other for other in node.program.graphs[site.scopes] if other.target == site.target]
    if site.target.startswith(HIGHER_ORDER):
        return len(others) == 1
    # Some graphs count their inputs from 0, others from 1.
    callers = {
        other.name for other in others for first in (0, 1) if _is_call(code, other, _numbered(other, first))
    }
    return callers == {site.name} and _is_call(code, site, _numbered(site, 0))


def _may_be_traced(code: str, node: ProgramNode) -> bool:
    """Whether all values of a statement may be of a node's graph, if it was traced again."""
    names = [*node.site.inputs, *(other.name for other in node.program.graphs[node.site.scopes])]
    # A number at the end of a name only makes it unique.
    known = {*node.site.inputs, *(NUMBER.sub("", name) for name in names)}
    return all(
        name in known or NUMBER.sub("", name) in known for name in VALUE.findall(code.partition(";")[0])
    )


def _numbered(site: NodeSite, first: int) -> Callable[[str], str]:
    """What an input of a graph that was traced again is called, by its name in the program."""
    numbers = {name: at for at, name in enumerate(site.inputs, first)}

    def called(name: str) -> str:
        return rf"(?:arg|primals_){numbers[name]}(?:_\d+)?" if name in numbers else NEVER

    return called


class NodeStatement(NamedTuple):
    """The statement of a node, as its frame shows it.

    Attributes:
        name: the node's; "" where no statement is shown.
        code: what the node calls, with its arguments; "" likewise.
        line: its line in the generated code, from 1.
        is_traced: whether the frame says that PyTorch traced the code's graph.
    """

    name: str
    code: str
    line: int
    is_traced: bool
    call: GraphCall

    def may_be_of(self, site: NodeSite) -> bool:
        """Whether it has a node's name and operator."""
        return site.name == self.name and self.code.startswith(f"{site.target}(")

    def fit(self, node: ProgramNode) -> Fit:
        """Whether it is the statement of a node; one that is not shown may be, by its line."""
        if not self.name:
            return Fit.MAYBE if is_line(self.line, node) else Fit.NO
        if not self.may_be_of(node.site):
            return Fit.NO
        return fit(self.code, self.line, node, is_traced=self.is_traced)

    @property
    def is_of_program(self) -> bool:
        """Whether it calls what nodes of programs call, not a module or another Python function."""
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
