"""Placeholders: an object whose class is not here, and a value that is not there."""

from __future__ import annotations

UNSET = object()
"""Marks a place that holds nothing; None is a value."""


class Plain:
    """An object in place of one whose class is not here: it takes any attribute, and items by any key."""

    __slots__ = ("__dict__", "__items")

    def __init__(self) -> None:
        self.__items: dict[object, object] = {}

    def register_buffer(self, name: str, tensor: object, *, persistent: bool = True) -> None:  # noqa: ARG002
        """Set an attribute: nothing here tells buffers from other tensors."""
        setattr(self, name, tensor)

    def __getitem__(self, key: object) -> object:
        return self.__items[key]

    def __setitem__(self, key: object, value: object) -> None:
        self.__items[key] = value

    def __delitem__(self, key: object) -> None:
        del self.__items[key]


METHODS = frozenset(name for name in vars(Plain) if not name.endswith("__"))
"""Names that objects of ``Plain`` have of their class, and no attribute may hide."""
