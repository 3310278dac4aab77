"""A name as a user gives it → what has it, in one of several models or in any: nodes, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line, shown
from archive.base.strings import scoped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeVar

    Model = TypeVar("Model")
    Named = TypeVar("Named")

EXAMPLES = 3
"""Names that a message tells."""


def found_in(
    models: Mapping[str, Model], name: str, in_model: Callable[[Model, str], Iterable[Named]]
) -> list[Named]:
    """What a name stands for: in the model that stands before it, else in all models.

    Args:
        models: of the archive, by name.
        name: with its model's before it (``decoder:linear_3``), or alone.
        in_model: what has a name in a model.

    Returns:
        One, or several that cannot be told apart by the name; none where nothing has it.
    """
    chosen = [one for model, key in scoped(name, models) for one in in_model(models[model], key)]
    return chosen or [one for model in models.values() for one in in_model(model, name)]


def why_none(kind: str, name: str, names: Sequence[str]) -> str:
    """Words for a name that nothing has: the names that there are, those alike first.

    Args:
        kind: of what is named: ``node``.
        name: the name.
        names: those that there are.
    """
    from difflib import get_close_matches  # noqa: PLC0415 (only then needed)

    some = get_close_matches(name, names, EXAMPLES) or names[:EXAMPLES]
    more = ", …" if len(names) > len(some) else ""
    return f"no {kind} {shown(name)}; there are {', '.join(map(one_line, some)) or 'none'}{more}"
