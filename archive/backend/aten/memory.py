"""The memory of a run of the register machine: which storages operations make, and when they are freed."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch

from archive.backend.tensors import tensors_in

CONTAINER_TYPES = (list, tuple, dict)


class EventSink(Protocol):
    """What an observed run is recorded in."""

    @property
    def operations(self) -> list[tuple[int, int, int, str]]:
        """Takes (start in ns, end in ns, debug handle, kind of the operation) for each that has run."""

    @property
    def memory(self) -> list[tuple[int, int, int, int, int]] | None:
        """None where it is not wanted.

        Takes (time in ns, debug handle, bytes, bytes in use by then, address) for each storage that an
        operation makes, and again, with bytes below zero, when nothing holds it any longer.
        """


class Memory:
    """The storages that a run makes, as long as anything holds them.

    Written for speed, as an operation of a small model takes some 5 µs: while the program runs, this only
    notes what happens; the events are made of that at the end.

    Args:
        known: storages that are there beforehand, by address.
    """

    def __init__(self, known: dict[int, Any]) -> None:
        self.freed: list[Any] = []
        self._on_freed = self.freed.append
        self._live = known
        self._notes: list[tuple[int, int, int, int, Any]] = []

    def made(self, value: object, now: int, handle: int) -> None:
        """Note the new storages in what an operation has made by ``now``, in ns."""
        if type(value) is torch.Tensor:
            self._note(value, now, handle)
        elif type(value) in CONTAINER_TYPES:
            for one in tensors_in(value):
                self._note(one, now, handle)

    def _note(self, tensor: torch.Tensor, now: int, handle: int) -> None:
        try:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
        except RuntimeError:  # sparse tensors, and those that are not computed, have none
            return
        if address and (address not in self._live or self._live[address]() is None):
            held = self._live[address] = weakref.ref(storage, self._on_freed)
            self._notes.append((now, handle, storage.nbytes(), address, held))

    def gone(self, now: int, handle: int) -> None:
        """Note that all storages in ``freed`` were freed by ``now``."""
        self._notes.append((now, handle, 0, 0, self.freed.copy()))
        self.freed.clear()

    def events(self) -> list[tuple[int, int, int, int, int]]:
        """The events of :class:`Recording`; nothing is noted any more."""
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
