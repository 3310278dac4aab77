"""The parameters, buffers and other attributes of a module whose effects are lowered, beside its graphs.

A graph holds parameters and buffers that no call changes, and a table the state that calls read or change.
Neither has what no call reads, nor the names. The rows of members have both.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.formats.effects.model import Attribute, Local

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from archive.formats.effects.model import Source

MODULE, SAME, MODE, PARAMETER, BUFFER, TRANSIENT, OTHER = (
    *("module", "same", "mode", "parameter", "buffer", "transient", "other"),
)
"""Kinds of members; a mode is ``training``, and a transient buffer is not persistent."""
IN_STATE, NOTHING, ODD = -1, -2, -3
"""Numbers in the place of a tensor's."""
READ = "read"
METHODS = ("train", "parameters", "named_parameters", "state_dict", "load_state_dict", "to")
"""Methods of a module that a loaded one has, too, and that a class may have of its own."""
BEHIND = {
    "train": ("train",),
    "parameters": ("parameters", "named_parameters", "named_modules", "_named_members"),
    "named_parameters": ("named_parameters", "named_modules", "_named_members"),
    "state_dict": ("state_dict", "_save_to_state_dict", "get_extra_state"),
    "load_state_dict": ("load_state_dict", "_load_from_state_dict", "set_extra_state"),
    "to": ("to", "_apply"),
}
"""The methods of ``torch.nn.Module`` by which each of these is done."""
HARMLESS = ("torch.nn.modules.batchnorm", "torch.nn.modules.rnn")
"""Python modules of PyTorch whose own methods do no more for what this release saves."""
HOOKS = {
    "state_dict": ("_state_dict_hooks", "_state_dict_pre_hooks"),
    "load_state_dict": ("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
}
OF_MODULES = frozenset(vars(torch.nn.Module()))
"""Attributes that all modules have."""


class Member(NamedTuple):
    """A member of a module or of its parts.

    Attributes:
        path: its names, joined by dots; "" for the module itself.
        kind: what it is, by one of the words above.
        detail: of a module, the methods that its class has of its own, joined by blanks; of a module that was
            met before, its first path; of a parameter or buffer, the path at which the state has it, or
            ``READ`` if a graph reads it.
        number: of a module, its version; of a mode, 0 or 1; of a parameter or buffer, that of its tensor,
            or -1 if the state has it, -2 if it is None, -3 if it is no dense tensor.
    """

    path: str
    kind: str
    detail: str
    number: int


def members_of(
    module: torch.nn.Module, state: Collection[Source], graphs: torch.nn.Module
) -> tuple[list[Member], list[torch.Tensor]]:
    """The members of a module, and their tensors.

    Args:
        module: an eager module.
        state: the places in its state, whose tensors the state has.
        graphs: the captured graphs, with the tensors that they read.
    """
    in_graphs = {one.data_ptr() for one in (*graphs.parameters(), *graphs.buffers())}
    tensors: list[torch.Tensor] = []
    numbers: dict[int, tuple[str, int]] = {}
    rows: list[Member] = []

    def add(path: str, kind: str, tensor: torch.Tensor | None, source: Source) -> None:
        if tensor is None or tensor.layout != torch.strided:
            rows.append(Member(path, kind, "", NOTHING if tensor is None else ODD))
            return
        if id(tensor) not in numbers:
            is_state = source in state
            if is_state:
                numbers[id(tensor)] = path, IN_STATE
            else:
                numbers[id(tensor)] = READ if tensor.data_ptr() in in_graphs else "", len(tensors)
                tensors.append(tensor.detach().requires_grad_(tensor.requires_grad))
        rows.append(Member(path, kind, *numbers[id(tensor)]))

    for path, one, first, source in _modules(module):
        if first is not None:
            rows.append(Member(path, SAME, first, 0))
            continue
        below = f"{path}." if path else ""
        rows.append(Member(path, MODULE, " ".join(_own_methods(one)), int(getattr(one, "_version", 1))))
        rows.append(Member(f"{below}training", MODE, "", int(one.training)))
        for name, parameter in one._parameters.items():
            add(below + name, PARAMETER, parameter, Attribute(source, name))
        for name, buffer in one._buffers.items():
            kind = TRANSIENT if name in one._non_persistent_buffers_set else BUFFER
            add(below + name, kind, buffer, Attribute(source, name))
        rows += [
            Member(below + name, OTHER, "", 0)
            for name in vars(one)
            if name not in OF_MODULES and "." not in name
        ]
    return rows, tensors


def _modules(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module, str | None, Source]]:
    """Modules as ``state_dict`` comes to them: path, module, path at which it was met before, and source."""
    met: dict[int, str] = {}
    waiting: list[tuple[str, torch.nn.Module, Source]] = [("", module, Local("self"))]
    while waiting:
        path, one, source = waiting.pop()
        first = met.get(id(one))
        yield path, one, first, source
        if first is None:
            met[id(one)] = path
            waiting += [
                (f"{path}.{name}" if path else name, child, Attribute(source, name))
                for name, child in reversed(one._modules.items())
                if child is not None
            ]


def _own_methods(module: torch.nn.Module) -> Iterator[str]:
    """Methods that a module's class does in a way of its own."""
    for method in METHODS:
        if any(_is_own(type(module), name) for name in BEHIND[method]) or any(
            vars(module).get(hooks) for hooks in HOOKS.get(method, ())
        ):
            yield method


def _is_own(kind: type, name: str) -> bool:
    """Whether a class has another method of this name than ``torch.nn.Module``."""
    for base in kind.__mro__:
        if base is torch.nn.Module:
            return False
        if name in vars(base):
            return base.__module__ not in HARMLESS
    found: Any = inspect.getattr_static(kind, name, None)
    return found is not None
