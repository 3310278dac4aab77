"""Replaces parts of a module by lowered ones, each named by its path: ``encoder``, ``blocks.1``.

The module around them stays. The parts of an eager module are replaced, and then the module is scripted. A
scripted or loaded module no longer has Python source: PyTorch replaces the parts in a copy, and with them
their types wherever they stand. So a part is refused if another module has its type.
"""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.lower.wrappers import lowered_parts
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Lower = Callable[[torch.nn.Module, str], torch.jit.ScriptModule]


def with_lowered_parts(
    module: torch.nn.Module, paths: Sequence[str], lower: Lower
) -> torch.nn.Module | torch.jit.ScriptModule:
    """A copy of a module with its parts lowered; parameters and buffers are shared.

    Returns:
        A scripted module if ``module`` is one, else an eager one.
    """
    if isinstance(paths, str) or not all(isinstance(path, str) for path in paths):
        raise LoweringError(f"expected a list of paths, found {paths!r}")
    for number, path in enumerate(paths):
        _check_path(module, path)
        if path in paths[:number]:
            raise LoweringError(f"{path} is named twice")
        for other in paths[:number]:
            if f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}."):
                raise LoweringError(f"{path} and {other} are in one another; lower parts that are not")
    if not paths:
        raise LoweringError("expected the path of a part to lower, found none")
    if isinstance(module, torch.jit.ScriptModule):
        return _with_replaced_parts(module, paths, lower)
    for path in paths:
        module = _with_part(module, path.split("."), lower(module.get_submodule(path), path))
    return module


def called_methods(module: torch.jit.ScriptModule, path: str) -> list[str]:
    """The methods of a scripted module's part that other modules call; ``forward`` if there are none.

    A traced module that is called twice has a method for each call: ``forward``, ``forward1``.
    """
    kind = attrgetter(path)(module)._c._type().annotation_str
    others = [part._c for part in module.modules() if part._c._type().annotation_str != kind]
    methods = (other._get_method(name) for other in others for name in other._method_names())
    calls = (call for method in methods for call in method.graph.findAllNodes("prim::CallMethod"))
    names = [call.s("name") for call in calls if next(call.inputs()).type().annotation_str == kind]
    return sorted(set(names)) or ["forward"]


def _check_path(module: torch.nn.Module, path: str) -> None:
    """Make sure that a path leads to a module that can be called. After the path, the words are PyTorch's."""
    part = module
    for name in path.split("."):
        if not hasattr(part, name):
            known = ", ".join(child for child, _ in part.named_children()) or "none"
            raise LoweringError(
                f"part {path!r}: {_type_of(part)} does not have a field with name '{name}'; modules: {known}"
            )
        part = getattr(part, name)
        if not isinstance(part, torch.nn.Module):
            raise LoweringError(f"part {path!r}: Attribute named {name} is not a Module")
    if _type_of(part) in ("ModuleList", "ModuleDict"):
        known = ", ".join(f"{path}.{child}" for child, _ in part.named_children()) or "none"
        raise LoweringError(f"part {path!r}: a {_type_of(part)} has no forward; lower its modules: {known}")


def _type_of(module: torch.nn.Module) -> str:
    """The class of a module, by its own name."""
    return getattr(module, "original_name", type(module).__name__)


def _with_part(module: torch.nn.Module, names: Sequence[str], part: torch.nn.Module) -> torch.nn.Module:
    """A copy of an eager module, and of those on the way, in which a part is another one."""
    copied = copy.copy(module)
    name, *rest = names
    held = module.get_submodule(name)
    copied._modules = {**module._modules, name: _with_part(held, rest, part) if rest else part}
    return copied


def _with_replaced_parts(
    module: torch.jit.ScriptModule, paths: Sequence[str], lower: Lower
) -> torch.jit.ScriptModule:
    """A copy of a scripted module with its parts lowered."""
    for part in lowered_parts(module._c):
        where = f"its part {part}" if part else "the module"
        raise LoweringError(
            f"{where} is lowered already, and PyTorch does not copy a scripted module with such a part; name "
            "all paths at once, or lower the parts of the eager module, one after another"
        )
    types = {path: part._c._type().annotation_str for path, part in module.named_modules()}
    for path in paths:
        same = [other for other in types if types[other] == types[path] and other != path]
        if same:
            raise LoweringError(
                "Selective lowering is only supported for module hierarchies with unique types: part "
                f"{path!r} and {same[0]!r} have one; lower parts of the eager module, or the part around both"
            )
    left = iter(paths)
    made: Any = torch._C._jit_to_backend_selective(module, lambda part: lower(part, next(left)), list(paths))
    return made
