"""Lowers modules to a backend, saves and runs them, and shows errors and profiles at the model's source.

In: a module, or an exported program, and the name of a backend. Out: a lowered module, its archive, results,
and profiles. Needs PyTorch. The steps of lowering and running, each by its file:

1. ``graph/inlining`` follows all calls of the module's TorchScript graphs, and ``graph/range_finder`` finds
   the source range of each node. ``exported/`` makes the same of a program of ``torch.export``.
2. ``lower/handles`` gives each operation a debug handle.
3. A backend of the ``registry`` preprocesses the graphs to a state: ``aten/`` and ``demo/`` are backends.
4. ``lower/links`` generates TorchScript that executes the state, and ``lower/lowering`` makes a module of it.
5. ``lower/saving`` saves this module with the model's source for each debug handle. ``programs/`` lowers
   parts of a program of ``torch.export`` instead, which stays a program.
6. ``delegate`` runs it in this process, ``effectful`` also does its side effects; ``recording`` records its
   calls. ``stock/`` profiles any archive in stock PyTorch.

``conformance/`` tests a backend, ``executorch`` lowers parts of ExecuTorch's programs to one. A backend's
``preprocess`` gets the graphs as the model has them: it can simplify them with :func:`folded`, and refuse an
operation by a :class:`LoweringError` with the message of :func:`compile_error`.
"""

from archive.backend.delegate import Delegate
from archive.backend.effectful import Effectful
from archive.backend.errors import BackendError, OperationError
from archive.backend.graph.folding import folded
from archive.backend.lower.codegen import compile_error
from archive.backend.lower.handles import DebugHandles, generate_debug_handles
from archive.backend.lower.links import Ahead
from archive.backend.lower.lowering import lower, lower_to_torchscript
from archive.backend.lower.reloading import load_archive
from archive.backend.lower.saving import Saved, lowered_archive, save_lowered
from archive.backend.programs.profiling import profile_program
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
from archive.backend.stock.running import profile_archive
from archive.base.errors import LoweringError
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import Recording
from archive.effects.replay.errors import GuardError

__all__ = [
    "Ahead",
    "Backend",
    "BackendError",
    "DebugHandles",
    "Delegate",
    "Effectful",
    "GuardError",
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
    "load_archive",
    "lower",
    "lower_to_torchscript",
    "lowered_archive",
    "profile_archive",
    "profile_program",
    "register_backend",
    "save_lowered",
    "unregister_backend",
]
