"""What is kept before each kind of effect, what is done, and how that is undone, as lines of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.replay import undo
from archive.formats.effects.model import Op

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP = {
    Op.SET_ATTRIBUTE: (
        "{target}.__dict__.get({key}, ABSENT) "
        "if type({target}) in {known} or is_plain({target}, {key}, {known}) "
        "else keep_attribute({target}, {key}, {value})"
    ),
    Op.DELETE_ATTRIBUTE: "keep_all({target})",
    Op.SET_ITEM: "{target}.get({key}, ABSENT) if type({target}) is dict else keep_item({target}, {key})",
    Op.DELETE_ITEM: "keep_removed({target}, {key})",
    Op.APPEND: "len({target}) if type({target}) is list else keep_all({target})",
    Op.EXTEND: "len({target}) if type({target}) is list else keep_all({target})",
    Op.INSERT: "keep_inserted({target}, {key})",
    Op.POP: "keep_removed({target}{comma}{key})",
    Op.CLEAR: "keep_all({target})",
    Op.SET_GLOBAL: "{target}.get({name}, ABSENT)",
    Op.SET_CELL: "keep_cell({target})",
    Op.COPY: "keep_tensor({target})",
    Op.SAVE_FOR_BACKWARD: "keep_saved({target})",
    Op.REGISTER_HOOK: "keep_hook(state, {value})",
    Op.REMOVE_HOOK: "keep_removed_hook(state, {value})",
}
DO = {
    Op.SET_ATTRIBUTE: "setattr({target}, {key}, {value})",
    Op.DELETE_ATTRIBUTE: "delattr({target}, {key})",
    Op.SET_ITEM: "{target}[{key}] = {value}",
    Op.DELETE_ITEM: "del {target}[{key}]",
    Op.APPEND: "{target}.append({value})",
    Op.EXTEND: "{target}.extend({value})",
    Op.INSERT: "{target}.insert({key}, {value})",
    Op.POP: "{target}.pop({key})",
    Op.CLEAR: "{target}.clear()",
    Op.SET_GLOBAL: "{target}[{name}] = {value}",
    Op.SET_CELL: "{target}.cell_contents = {value}",
    Op.COPY: "{target}.copy_({value})",
    Op.SAVE_FOR_BACKWARD: "{target}.save_for_backward(*{value})",
    Op.REGISTER_HOOK: "state.hooks[{value}] = {target}.register_hook({code})",
    Op.REMOVE_HOOK: "state.hooks.pop({value}).remove()",
}
UNDO: dict[Op, Callable[[Any, Any, Any, set[type]], None]] = {
    Op.SET_ATTRIBUTE: undo.restore_attribute,
    Op.SET_ITEM: lambda target, key, kept, _: undo.restore_item(target, key, kept),
    Op.APPEND: lambda target, _, kept, __: undo.restore_length(target, kept),
    Op.EXTEND: lambda target, _, kept, __: undo.restore_length(target, kept),
    Op.SET_GLOBAL: lambda target, key, kept, _: undo.restore_entry(target, key, kept),
}
"""Given target, key, what was kept, and known classes. Other ops keep what ``put_back`` takes."""
HELPERS = {name: getattr(undo, name) for name in dir(undo) if name.startswith(("keep_", "is_plain"))}


def apart(value: Any, changed: tuple[object, ...]) -> Any:  # noqa: ANN401
    """A tensor, or a copy of it if it is going to be changed before it is copied from."""
    return value.clone() if any(value is one for one in changed) else value
