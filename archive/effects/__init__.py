"""What a module's methods compute and what they change, captured from Python. Needs PyTorch."""

from archive.effects.capture import Captured, capture
from archive.effects.errors import CaptureError
from archive.effects.side_effects import SideEffects, Initial
from archive.effects.variables import DELETED, Kind, MutationType, Variable

__all__ = [
    "DELETED",
    "CaptureError",
    "Captured",
    "Kind",
    "MutationType",
    "SideEffects",
    "Initial",
    "Variable",
    "capture",
]
