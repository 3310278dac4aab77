"""The gate: names that a record of effects may hold. Every record has passed it when read or written.

A record names places and code of Python. Most names are looked up in what the table itself creates; some, by
permission, in a live model. Special names (``__class__``, ``__globals__``, ``__builtins__`` …) lead from any
object to any code, so none of them may name a place. In a qualified name of code, ``__call__`` may come last,
and any method may have local functions: ``Model.__init__.<locals>.<lambda>``.
"""

from __future__ import annotations

from archive.base.errors import ArchiveError, shown

LOCALS = "<locals>"
"""Follows a function in the qualified name of something local to it."""
CALLED = "__call__"
"""The one special method that a record may name: that of an object used as a hook."""
SETTING_NAMES = (
    "torch.is_grad_enabled",
    "torch.is_autocast_enabled",
    "torch.is_autocast_enabled('cuda')",
    "torch.is_inference_mode_enabled",
    "torch.get_default_dtype",
)
"""Settings of PyTorch that guards may ask for."""

MODULE_NAMES = frozenset(
    (
        *("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook"),
        *("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_hooks_with_kwargs"),
        *("_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
        *("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks"),
        *("_load_state_dict_post_hooks", "_compiled_call_impl"),
    )
)
"""Attributes that ``torch.nn.Module`` keeps for itself, whose contents its code calls."""


def is_special(name: str) -> bool:
    """Whether a name is Python's own: ``__name__``."""
    return len(name) > len("____") and name.startswith("__") and name.endswith("__")


def check_place(name: str) -> None:
    """Refuse the name of an attribute, a global or a variable that leads to code."""
    if is_special(name):
        raise ArchiveError(f"{shown(name)} is Python's own, and no place for a value")
    if name in MODULE_NAMES:
        raise ArchiveError(f"{shown(name)} is PyTorch's own, and no place for a value")


def check_code(name: str) -> None:
    """Refuse the name of a class or function, ``module:qualname``, that leads beyond what it names."""
    parts = name.partition(":")[2].split(".")
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        if is_special(part) and following != LOCALS and not (part == CALLED and not following):
            raise ArchiveError(f"{shown(part)} in {shown(name)} is Python's own, and names no code")


def check_setting(name: str) -> None:
    """Refuse a setting that guards don't ask for."""
    if name not in SETTING_NAMES:
        raise ArchiveError(expected=f"a setting: {', '.join(SETTING_NAMES)}", found=shown(name))


def check_hooks(name: str) -> None:
    """Refuse hooks that modules don't have."""
    if name not in MODULE_NAMES:
        raise ArchiveError(expected="hooks of a module", found=shown(name))
