"""Records the memory of a run: which storages operations make, and when these are freed."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch

from archive.backend.tensors import tensors_in

CONTAINER_TYPES = (list, tuple, dict)


class EventSink(Protocol):
    """Takes the events of an observed run: the runtime itself."""

    @property
    def operations(self) -> list[tuple[int, int, int, str]]:
        """Takes (start in ns, end in ns, debug handle, kind) for each operation that has run."""

    @property
    def memory(self) -> list[tuple[int, int, int, int, int]] | None:
        """Takes two events for each storage that an operation makes; None if they are not wanted.

        An event is (time in ns, debug handle, bytes, bytes in use then, address). The second one, with
        negative bytes, comes when nothing holds the storage any longer.
        """


class Memory:
    """Notes which storages operations make, and when they are freed.

    An operation of a small model takes some 5 µs, so notes are short while the program runs; they become
    events at the end.

    Args:
        known: weak references to the storages that exist before the run, by address.

    Attributes:
        freed: weak references to storages that were freed since the last :meth:`gone`.
    """

    def __init__(self, known: dict[int, Any]) -> None:
        self.freed: list[Any] = []
        self._on_freed = self.freed.append
        self._live = known
        self._notes: list[tuple[int, int, int, int, Any]] = []

    def made(self, value: object, now: int, handle: int) -> None:
        """Note the new storages in the result of an operation that ended at ``now``, in ns."""
        if type(value) is torch.Tensor:
            self._note(value, now, handle)
        elif type(value) in CONTAINER_TYPES:
            for one in tensors_in(value):
                self._note(one, now, handle)

    def _note(self, tensor: torch.Tensor, now: int, handle: int) -> None:
        try:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
        except RuntimeError:  # sparse tensors, and those that are not computed, have no storage
            return
        if address and (address not in self._live or self._live[address]() is None):
            held = self._live[address] = weakref.ref(storage, self._on_freed)
            self._notes.append((now, handle, storage.nbytes(), address, held))

    def gone(self, now: int, handle: int) -> None:
        """Note that all storages in ``freed`` were freed by ``now``, in ns, behind an operation."""
        self._notes.append((now, handle, 0, 0, self.freed.copy()))
        self.freed.clear()

    def events(self) -> list[tuple[int, int, int, int, int]]:
        """The events of the run, as :class:`EventSink` takes them; the notes are dropped."""
        notes, self._notes = self._notes, []
        sizes: dict[int, tuple[int, int]] = {}
        made, total = [], 0
        for now, handle, size, address, held in notes:
            if address:
                total += size
                sizes[id(held)] = size, address
                made.append((now, handle, size, total, address))
                continue
            for one in held:
                freed, place = sizes[id(one)]
                total -= freed
                made.append((now, handle, -freed, total, place))
        return made
