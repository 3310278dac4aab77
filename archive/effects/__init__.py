"""Side effects of eager modules: captured as a table beside a pure graph, replayed after the graph has run.

``capture`` calls a module with proxies of its state, and returns the graph and the table of effects.
``capture_entries`` returns several, if calls differ by what they find. ``trial`` tries both in a child
process before they are returned. ``lower(..., effects=True)`` of :mod:`archive.backend` lowers the graph and
keeps the table; ``Effectful`` runs both where the archive is loaded. ``replay`` only makes the changes. Needs
PyTorch.
"""

from archive.effects.capture.entries import Captured
from archive.effects.capture.table.side_effects import SideEffects
from archive.effects.capturing import UntriedWarning, capture, capture_entries
from archive.effects.errors import CaptureError, StateError
from archive.effects.placeholders import Plain
from archive.effects.replay.errors import GuardError, ReplayError
from archive.effects.replay.replay import inputs, replay
from archive.effects.replay.state import State

__all__ = [
    "CaptureError",
    "Captured",
    "GuardError",
    "Plain",
    "ReplayError",
    "SideEffects",
    "State",
    "StateError",
    "UntriedWarning",
    "capture",
    "capture_entries",
    "inputs",
    "replay",
]
