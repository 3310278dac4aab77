"""Modules lowered to a backend, and whatever goes wrong in them led back to the model. Needs PyTorch.

The way of a module: ``inlining`` follows all calls of its TorchScript graphs, ``places`` finds where each
node stands, ``handles`` numbers them, a backend of the ``registry`` makes of them what it wants to keep,
``links`` writes what executes that as TorchScript, ``lowering`` makes a module of it, and ``saving`` writes
that with the model's source. ``delegate`` runs it here, with errors and profiles at that source.

A backend's ``preprocess`` is given graphs as the model has them: :func:`folded` does beforehand what can be
done, and :func:`compile_error` has PyTorch's words for an operation that it does not support, for a
:class:`LoweringError`.
"""

from archive.backend.delegate import Delegate
from archive.backend.effectful import Effectful
from archive.backend.errors import BackendError, LoweringError, OperationError
from archive.backend.graph.folding import folded
from archive.backend.lower.ahead import Ahead
from archive.backend.lower.codegen import compile_error
from archive.backend.lower.handles import DebugHandles, generate_debug_handles
from archive.backend.lower.lowering import lower
from archive.backend.lower.saving import Saved, lowered_archive, save_lowered
from archive.backend.profile.events import Recording
from archive.backend.profile.profile import Profile
from archive.backend.registry import (
    Backend,
    Link,
    Original,
    Runtime,
    backend_names,
    find_backend,
    register_backend,
    unregister_backend,
)

__all__ = [
    "Ahead",
    "Backend",
    "BackendError",
    "DebugHandles",
    "Delegate",
    "Effectful",
    "Link",
    "LoweringError",
    "OperationError",
    "Original",
    "Profile",
    "Recording",
    "Runtime",
    "Saved",
    "backend_names",
    "compile_error",
    "find_backend",
    "folded",
    "generate_debug_handles",
    "lower",
    "lowered_archive",
    "register_backend",
    "save_lowered",
    "unregister_backend",
]
