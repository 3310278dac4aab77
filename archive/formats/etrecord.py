"""ETRecords: what ExecuTorch keeps when it lowers a model, to say where its instructions come from.

A zip whose files are in no folder, all stored:

========================================  =================================================================
``ETRECORD_V0``                           empty; the mark of an ETRecord
``exported_program``                      the program that was lowered; of several methods, ``forward``
``edge_dialect_exported_program/METHOD``  a method in ExecuTorch's operators, as backends see it
``NAME/METHOD``                           programs that the caller added
``debug_handle_map``                      the debug handles of each instruction
``delegate_map``                          the instructions that call a backend
``instruction_id_to_num_outs_map``        how many values these return
``reference_outputs``                     tensors, by ``torch.save``; ``representative_inputs``, too
``export_graph_id``                       the ``id`` of a graph in the process that exported
========================================  =================================================================

Beside each program are ``_state_dict``, ``_constants`` and ``_example_inputs``, by ``torch.save``, prefixed
with its name. A program is JSON as in ``.pt2`` (:mod:`archive.formats.exported.program`), whose nodes have a
``debug_handle`` in their metadata. Older records have one method, whose program is called
``edge_dialect_exported_program``. The maps are JSON, too: objects by method, in them objects by the number of
the instruction.

An instruction's number is its place in the method's only chain, which the runtime prints after the chain's
number: ``0:17``. A handle stands for all nodes that come from one node of the exported program. A region
without gradients or with other precision is one such node, so they may come from different lines. An
instruction that calls a backend has the handles of all nodes that the backend took; a backend may report
those of each event that it logs. Instructions without a node of their own (jumps, moves, views) have no
handle.

Source: ExecuTorch 1.5, ``devtools/etrecord/_etrecord.py``, ``exir/emit/_emitter.py`` (``_add_debug_handle``)
and ``exir/passes/debug_handle_generator_pass.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.formats.exported.node_metadata import HANDLE
from archive.formats.schema.json import DictOf, JsonClass, Matching, Nullable, OneOrMore, UpTo, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeVar

    from archive.formats.schema.json import Type

    Fact = TypeVar("Fact")

EDGE = "edge_dialect_exported_program"
ONLY_METHOD = "forward"
"""The method of ``edge_dialect_exported_program``."""
NODE_HANDLES = re.compile(r"[0-9]{1,18}|[(\[][0-9]{1,18}(?:, [0-9]{1,18})*,?[)\]]")
"""The handle of a node, or a tuple or list of the handles of the nodes that it replaced."""
UNSET = 0
"""The handle that means none."""
NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
"""The number of an instruction, written as ``json.dumps`` does, so that each has one form."""
LARGEST = (1 << 63) - 1
"""The largest debug handle."""

_HANDLES = OneOrMore(UpTo(LARGEST))
_EVENTS = Nullable(DictOf(_HANDLES))


def _map(fact: Type) -> DictOf:
    """The declaration of a fact about each instruction of each method."""
    return DictOf(DictOf(fact, Matching(NUMBER, "the number of an instruction")))


HANDLE_MAP = _map(_HANDLES)
DELEGATE = JsonClass(
    {"name": "str"},
    {"delegate_map": _EVENTS},
    {"name": "of the backend", "delegate_map": "the handles of each event that it logs"},
)
DELEGATE_MAP = _map(DELEGATE)
OUTPUT_MAP = _map(UpTo(LARGEST))


class DelegateCall(NamedTuple):
    """The backend that an instruction calls, which replaces some nodes.

    Attributes:
        backend: its name: ``XnnpackBackend``.
        events: the handles of each event that the backend logs, by the event's name; empty if it reports
            none.
    """

    backend: str
    events: Mapping[str, tuple[int, ...]]


class Instruction(NamedTuple):
    """An instruction of a method.

    Attributes:
        handles: of the nodes that it comes from; empty if none are recorded.
        delegate: the backend that it calls, or None.
        outputs: how many values a backend returns; None where that is not recorded.
    """

    handles: tuple[int, ...]
    delegate: DelegateCall | None
    outputs: int | None


def edge_program(method: str, programs: Collection[str]) -> str | None:
    """The program that a method's handles belong to; None where the record has none.

    Args:
        method: its name.
    """
    names = [f"{EDGE}/{method}", *([EDGE] if method == ONLY_METHOD else [])]
    return next((name for name in names if name in programs), None)


def node_handles(metadata: Mapping[str, str]) -> list[int]:
    """The handles in a node's metadata; empty where it has none."""
    text = metadata.get(HANDLE, "")
    numbers = re.findall(r"[0-9]+", text) if NODE_HANDLES.fullmatch(text) else []
    return [handle for handle in map(int, numbers) if handle != UNSET]


def parse_handles(tree: object) -> dict[str, dict[int, tuple[int, ...]]]:
    """The handles of each method's instructions."""
    return _by_instruction(checked(tree, HANDLE_MAP), _several)


def parse_delegates(tree: object) -> dict[str, dict[int, DelegateCall]]:
    """The backends that each method's instructions call."""

    def call(facts: dict[str, Any]) -> DelegateCall:
        events = facts.get("delegate_map") or {}
        return DelegateCall(facts["name"], {event: _several(handles) for event, handles in events.items()})

    return _by_instruction(checked(tree, DELEGATE_MAP), call)


def parse_outputs(tree: object) -> dict[str, dict[int, int]]:
    """How many values each method's calls of backends return."""
    return _by_instruction(checked(tree, OUTPUT_MAP), int)


def _by_instruction(tree: Any, fact: Callable[[Any], Fact]) -> dict[str, dict[int, Fact]]:  # noqa: ANN401 (JSON)
    return {
        method: {int(number): fact(value) for number, value in instructions.items()}
        for method, instructions in tree.items()
    }


def _several(handles: int | list[int]) -> tuple[int, ...]:
    return tuple(handles) if isinstance(handles, list) else (handles,)
