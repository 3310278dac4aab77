"""Lowers parts of a module, each named by its path: ``encoder``, ``blocks.1``; the module around them stays.

Of an eager module the parts are replaced, and then the module is scripted. A scripted or loaded module has no
Python source any more: PyTorch replaces the parts in a copy, and with them their types wherever they stand.
So a part whose type another module has, too, is refused.
"""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Lower = Callable[[torch.nn.Module, str], torch.jit.ScriptModule]


def with_lowered_parts(
    module: torch.nn.Module, paths: Sequence[str], lower: Lower
) -> torch.nn.Module | torch.jit.ScriptModule:
    """A copy of a module whose parts are lowered; parameters and buffers are shared.

    Args:
        module: an eager, scripted or loaded module.
        paths: the attributes that lead to each part, joined by dots.
        lower: lowers a part, which is given with its path.

    Returns:
        A scripted module if ``module`` is one, else an eager one.

    Raises:
        LoweringError: a path is no text, leads to no module, twice to one, or into another part; or PyTorch
            cannot replace a part of a scripted module.
    """
    if isinstance(paths, str) or not all(isinstance(path, str) for path in paths):
        raise LoweringError(f"expected a list of paths, found {paths!r}")
    for number, path in enumerate(paths):
        _check(module, path)
        if path in paths[:number]:
            raise LoweringError(f"{path} is named twice")
        for other in paths[:number]:
            if f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}."):
                raise LoweringError(f"{path} and {other} are in one another; lower parts that are not")
    if not paths:
        raise LoweringError("expected the path of a part to lower, found none")
    if isinstance(module, torch.jit.ScriptModule):
        return _replaced(module, paths, lower)
    for path in paths:
        module = _with(module, path.split("."), lower(module.get_submodule(path), path))
    return module


def called_methods(module: torch.jit.ScriptModule, path: str) -> list[str]:
    """The methods of a scripted module's part that other modules call; ``forward`` if there are none.

    A traced module that is called twice has a method for each call: ``forward``, ``forward1``.
    """
    kind = attrgetter(path)(module)._c._type().annotation_str
    others = [one._c for one in module.modules() if one._c._type().annotation_str != kind]
    methods = (other._get_method(name) for other in others for name in other._method_names())
    calls = (call for method in methods for call in method.graph.findAllNodes("prim::CallMethod"))
    names = [call.s("name") for call in calls if next(call.inputs()).type().annotation_str == kind]
    return sorted(set(names)) or ["forward"]


def _check(module: torch.nn.Module, path: str) -> None:
    """Make sure that a path leads to a module that can be called.

    Raises:
        LoweringError: it does not. The words are PyTorch's, behind the path.
    """
    one = module
    for name in path.split("."):
        if not hasattr(one, name):
            known = ", ".join(child for child, _ in one.named_children()) or "none"
            raise LoweringError(
                f"part {path!r}: {_type_of(one)} does not have a field with name '{name}'; modules: {known}"
            )
        one = getattr(one, name)
        if not isinstance(one, torch.nn.Module):
            raise LoweringError(f"part {path!r}: Attribute named {name} is not a Module")
    if _type_of(one) in ("ModuleList", "ModuleDict"):
        known = ", ".join(f"{path}.{child}" for child, _ in one.named_children()) or "none"
        raise LoweringError(f"part {path!r}: a {_type_of(one)} has no forward; lower its modules: {known}")


def _type_of(module: torch.nn.Module) -> str:
    """The class of a module, by its own name."""
    return getattr(module, "original_name", type(module).__name__)


def _with(module: torch.nn.Module, names: Sequence[str], part: torch.nn.Module) -> torch.nn.Module:
    """A copy of an eager module, and of those on the way, in which a part is another one."""
    copied = copy.copy(module)
    name, *rest = names
    held = module.get_submodule(name)
    copied._modules = {**module._modules, name: _with(held, rest, part) if rest else part}
    return copied


def _replaced(module: torch.jit.ScriptModule, paths: Sequence[str], lower: Lower) -> torch.jit.ScriptModule:
    """A copy of a scripted module whose parts are lowered.

    Raises:
        LoweringError: another module has the type of a part.
    """
    types = {path: one._c._type().annotation_str for path, one in module.named_modules()}
    for path in paths:
        same = [one for one in types if types[one] == types[path] and one != path]
        if same:
            raise LoweringError(
                "Selective lowering is only supported for module hierarchies with unique types: part "
                f"{path!r} and {same[0]!r} have one; lower parts of the eager module, or the part around both"
            )
    left = iter(paths)
    made: Any = torch._C._jit_to_backend_selective(module, lambda part: lower(part, next(left)), list(paths))
    return made
