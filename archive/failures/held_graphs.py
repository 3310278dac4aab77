"""Whether a graph whose frame is the outermost one in a traceback is held by a node that no frame shows.

``torch.fx.Interpreter``, and so ``torch.export.unflatten``, calls a node's operator itself. If the node
holds graphs, as ``cond`` does, only the graph's own code has a frame of generated code::

    File ".../torch/fx/interpreter.py", line 377, in call_function
      return target(*args, **kwargs)
    File ".../torch/_higher_order_ops/cond.py", line 311, in cond_op_dense
      return true_fn(*operands)
    File "<eval_with_key>.66", line 5, in forward
      index_select = torch.ops.aten.index_select.default(x, 0, i)

The outer graph may have a node with that very statement. The interpreter names the node that holds the graph
after the error's own message, the innermost node first::

    While executing %cond : [num_users=1] = call_function[target=torch.ops.higher_order.cond](args = …

Which graph of ``cond`` ran is seen by the line of its operator, ``true_fn``.

Source: ``torch/fx/interpreter.py`` and ``torch/_higher_order_ops`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.failures.nodes import EXECUTING, ExecutedNode
from archive.formats.exported.loaded import HIGHER_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.failures.log.streams import LogStream

COLOUR = rb"(?:\x1b\[[\d;]*m)*"
"""Escapes for a terminal, as Python 3.13 prints them."""
CALLER = re.compile(
    rb'.*?  File %b"[^"]*\btorch[\\/](?:fx[\\/]interpreter\.py%b", line %b\d+%b, in %b'
    rb"(?P<called>call_function|call_module)\b|_higher_order_ops[\\/])" % ((COLOUR,) * 5)
)
"""The heading of a frame that calls what a node calls."""
BRANCH = re.compile(rb"^ +(?:return )?%b(true|false)_fn%b\(" % ((COLOUR,) * 2))
"""A line of ``cond_op_dense``, which calls one of the graphs."""
TRACEBACK = b"Traceback (most recent call last):"
MOST_MESSAGE = 200
"""Lines after a traceback's frames in which the interpreter's message is looked for."""


class Caller(Enum):
    """What called the code of a graph, as far as the frames of other code show it."""

    UNSEEN = "what stands above the log's first frame"
    OTHER = "a frame of the graph around, or of other code"
    OPERATOR = "an operator that takes graphs"
    INTERPRETER = "an operator that the interpreter called"
    MODULE = "the interpreter, which called a whole module"


class GraphCall(NamedTuple):
    """How the code of a graph was called.

    Attributes:
        branch: which graph of ``cond`` it is, ``true`` or ``false``; "" where no line shows it.
    """

    caller: Caller = Caller.OTHER
    branch: str = ""

    def then(self, line: bytes) -> GraphCall:
        """The same, after another line of a frame."""
        if frame := CALLER.match(line):
            if frame["called"]:
                is_operator = frame["called"] == b"call_function"
                return GraphCall(Caller.INTERPRETER if is_operator else Caller.MODULE)
            return self if self.caller is Caller.INTERPRETER else self._replace(caller=Caller.OPERATOR)
        branch = BRANCH.search(line)
        return self if branch is None else self._replace(branch=decoded(branch[1]))

    def may_call(self, graph: str) -> bool:
        """Whether a graph of this name may be the one that was called: ``true_graph_0``."""
        return not self.branch or not graph.startswith("false" if self.branch == "true" else "true")

    @property
    def is_interpreted(self) -> bool:
        """Whether the interpreter called it: no frame of generated code shows the node that it executed."""
        return self.caller in (Caller.INTERPRETER, Caller.MODULE)


def call_above(texts: Iterable[bytes | None]) -> GraphCall:
    """The call that the lines above a frame show.

    Args:
        texts: their texts, the nearest first; None for a line of another stream.
    """
    frames, call = list[bytes](), GraphCall(Caller.UNSEEN)
    for text in texts:
        if text is not None and TRACEBACK in text:
            call = GraphCall()
            break
        frames.append(text or b"")
    for text in reversed(frames):
        call = call.then(text)
    return call


def holder_below(stream: LogStream, at: int) -> ExecutedNode | None:
    """The node that the interpreter executed when a traceback ended, if it holds graphs.

    Args:
        at: the number of the line after its frames.
    """
    for number in range(at, at + MOST_MESSAGE):
        text = stream.text(number, is_patient=False)
        if text is None or TRACEBACK in text:
            return None
        if message := EXECUTING.fullmatch(text):
            node = ExecutedNode.of(message)
            return node if node.target.startswith(HIGHER_ORDER) else None
    return None
