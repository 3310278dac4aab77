"""Values before the first call, read from the real objects, whatever calls have put in their places since."""

from __future__ import annotations

import inspect
from collections import deque
from typing import TYPE_CHECKING, Any

from archive.effects.capture.snapshot import Snapshot
from archive.effects.capture.variables import ABSENT
from archive.effects.python_containers import base_of
from archive.formats.effects.model import Attribute, ClosureCell, GlobalName, Item, Local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.effects.capture.call import CapturedCall
    from archive.formats.effects.model import Source


def originals_of(
    module: object, calls: Sequence[CapturedCall]
) -> tuple[dict[Source, object], dict[Source, Source]]:
    """The values before the first of some captured calls, by source; and further sources of equal objects.

    Args:
        module: the model.
        calls: the first one starts from the real objects, the others from what earlier ones leave.
    """
    originals, aliases = dict(calls[0].originals), dict(calls[0].aliases)
    for call in calls[1:]:
        real = _Real(module, call)
        for source in call.originals:
            value = originals.get(source, real.at(source))
            if value is not ABSENT:
                originals[source] = value
        for source, first in call.aliases.items():
            value = real.at(source)
            if value is not ABSENT and value is real.at(first):
                aliases.setdefault(source, first)
    return originals, aliases


class _Real:
    """Reads real values of a call's sources."""

    def __init__(self, module: object, call: CapturedCall) -> None:
        self._module = module
        self._call = call
        self._snapshot = Snapshot()

    def at(self, source: Source) -> Any:  # noqa: ANN401
        """The real value at a source; ``ABSENT`` if there is none."""
        match source:
            case Local("self"):
                return self._module
            case Attribute(base, name):
                return self._attribute(self.at(base), name)
            case Item(base, key):
                return _item(self.at(base), key)
            case GlobalName() | ClosureCell():
                return self._call.functions.real(source)
        return ABSENT

    def _attribute(self, owner: Any, name: str) -> Any:  # noqa: ANN401
        if owner is ABSENT:
            return ABSENT
        value = self._snapshot.attribute(owner, name)
        return inspect.getattr_static(owner, name, ABSENT) if value is ABSENT else value


def _item(container: Any, key: Any) -> Any:  # noqa: ANN401
    if isinstance(container, dict):
        return dict.get(container, key, ABSENT)
    base: Any = tuple if isinstance(container, tuple) else base_of(type(container))
    if base not in (list, tuple, deque):
        return ABSENT
    try:
        return base.__getitem__(container, key)
    except LookupError:
        return ABSENT
