"""Tests a backend by rules: whether modules that are lowered to it do what lowered modules should.

In: a backend's name, a model, and inputs. Out: a :class:`Report` of findings and notes. In a pytest test::

    from archive.backend.conformance import conformance

    def test_my_backend(conformance):
        conformance("mine", Model(), good=(x,), bad={"self.layer(x)": (too_wide,)})

The fixture fails the test with all findings. ``pytest_plugins = ["archive.backend.conformance.plugin"]``
provides it without the import. Without pytest, :func:`check` gives the findings, and :func:`examine` also
notes what could not be checked.

The rules, by the names that findings have:

``interface``
    The runtime has the methods and attributes of :class:`~archive.backend.registry.Runtime`, and compiles
    something for each method; between runs ``last_handle`` is -1.
``results``
    TorchScript and the backend's own runtime give the model's results, in each run.
``gradients``
    If the model's results have gradients, TorchScript and the runtime give inputs and parameters the same
    gradients, unless the test says that the backend is for inference only (``gradients=False``).
``handles``
    The saved archive, for TorchScript and for the lite interpreter, has each debug handle that was given out,
    or that the state keeps as ``<debug_handle>N``. The handle leads to a range in the model's source and has
    the name of an operator of the model.
``events``
    Each event has a handle that was given out, the operator's name of that handle, and an end that is not
    before its start. The operators that PyTorch runs for the model run within events.
``errors``
    Bad inputs fail, in the runtime and in TorchScript. The error's handles were given out, and lead to the
    line that the test names; TorchScript shows a line on the way there. The lite interpreter shows the module
    path of a failure, if any, with the call of the lowered module. Afterwards the backend still runs.
``failures``
    PyTorch's operators are made to fail, one by one. Each failure is a ``BackendError`` with the
    handle of the event in which the operator runs; without events, with any handle that was given out.
``state``
    State, compile spec, and attributes that the module is given later, are the same after loading, and after
    saving again. The loaded module gives the model's results: in TorchScript, in the lite interpreter, and in
    the runtime; in this process and in a new one.
``availability``
    The backend is available here, unless the test says otherwise (``available=False``). If it is not
    available, lowering warns, and the lowered module can be saved; running and loading raise ``Backend is not
    available.``. The rule tries a subclass of the runtime whose ``is_available`` gives False, and the runtime
    itself if the test can make it unavailable. C++ operators that ``is_available`` calls must be declared as
    ``CONSERVATIVE``, or TorchScript takes their first answer for a constant.
``reproducible``
    A module that is lowered twice gives the same bytes. Two modules lowered with one ``recorder`` share no
    handle, and can be saved in one archive.
``refusal``
    Invalid states are refused by an ``ArchiveError``, ``AssertionError`` or ``RuntimeError``: None, a number,
    garbage in place of texts. Texts that are cut in half may be valid; a note names those that were taken.
``unsupported``
    Models that the backend cannot compile raise :class:`~archive.backend.LoweringError` with the line
    that the test names.

The rules cannot check:

- handles in a state that does not keep them as texts, except those in events and errors;
- failures of operations that PyTorch's dispatcher does not run: sizes, lists, a backend's own kernels (if it
  runs nothing, ``failures`` notes that); failures in TorchScript, except those of bad inputs;
- missing events of operators that PyTorch runs differently for the backend and for the model, such as fused
  ones;
- whether the handle of a failure is that of the operation that failed, if there are no events, or events of
  another clock than ``time.perf_counter_ns``;
- whether ``is_available`` is right, unless the test can make the backend unavailable;
- other inputs, methods and devices than those given: examine each in a call of its own.

The whole model is lowered, whatever parts a backend's ``supports`` would take of it: give a model of nothing
but these.

If a backend is not available in this process, the rules that run it are skipped, and notes say so. Give
``available=False`` on a machine that only lowers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from archive.backend.conformance.checking import RULES, check, examine
from archive.backend.conformance.findings import BrokenRule, Note, Report

if TYPE_CHECKING:
    from archive.backend.conformance.plugin import conformance

__all__ = ["RULES", "BrokenRule", "Note", "Report", "check", "conformance", "examine"]


def __getattr__(name: str) -> object:
    """Import the fixture when it is first asked for, because it needs pytest."""
    if name != "conformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.plugin").conformance
