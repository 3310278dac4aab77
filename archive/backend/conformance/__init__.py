"""Whether a backend keeps what modules that are lowered to it promise: rules to test a backend with.

In a test of pytest::

    from archive.backend.conformance import conformance

    def test_my_backend(conformance):
        conformance("mine", Model(), good=(x,), bad={"self.layer(x)": (too_wide,)})

The fixture fails with all findings. It can be had without its import by ``pytest_plugins =
["archive.backend.conformance.plugin"]``. Without pytest, :func:`check` gives the findings, and
:func:`examine` what could not be seen besides.

The rules, by the names that findings have:

``interface``
    The runtime has what :class:`~archive.backend.registry.Runtime` asks for, of the types it says; it
    compiles something for each method; between runs ``last_handle`` is -1.
``results``
    TorchScript and the backend's own runtime give what the model gives, each time they are run.
``gradients``
    Where the model's results have gradients, inputs and parameters get the same ones from TorchScript and
    from the runtime, unless the test tells that the backend is for inference alone (``gradients=False``).
``handles``
    Each debug handle that was given out, or that the state keeps as ``<debug_handle>N``, is in the saved
    archive, for TorchScript and for the lite interpreter. It leads to a place in the model's source and has
    the name of an operator of the model.
``events``
    Each event has a handle that was given out, the operator's name of that handle, and an end that is not
    before its start. What PyTorch runs for the model runs within an event.
``errors``
    Bad inputs fail, here and in TorchScript. The error's handles were given out, and lead to the line that
    the test names; where each operation is a statement, TorchScript shows a line on the way there. After
    that the backend still runs.
``failures``
    PyTorch's operators are made to fail, one after the other. Each failure is a ``BackendError`` with the
    handle of the event in which the operator runs; where there are no events, with any that was given out.
``state``
    State, compile spec, and attributes that the module is given later, are the same when loaded, and when
    saved again. What is loaded gives the model's results: in TorchScript, the lite interpreter (not with the
    link ``class``), and the runtime, in this process and in a new one.
``availability``
    The backend is available here, unless the test tells otherwise (``available=False``). Where it is not,
    lowering warns and can be saved, running and loading raise ``Backend is not available.``. A copy of the
    runtime is examined whose ``is_available`` says no; and the runtime itself, if the test tells how to make
    it unavailable. Operators that it asks must be declared as ``CONSERVATIVE``, or TorchScript takes their
    first answer for a constant.
``reproducible``
    Lowered twice, a module gives the same bytes. Two modules lowered by one recorder share no handle, and
    can be saved in one archive.
``refusal``
    A state that is none is refused with an error that says so: None, a number, other texts. Shorter texts
    may be states, too; but nothing raises another kind of error. Texts that were taken are named.
``unsupported``
    Models that the backend cannot compile raise :class:`~archive.backend.errors.LoweringError` with the line
    that the test names.

What they cannot see:

- The meaning of a state whose handles do not stand in texts, beyond what events and errors show of it.
- Failures in what PyTorch's dispatcher does not run: sizes, lists, a backend's own kernels. If it runs
  nothing, ``failures`` says so in a note. Failures in TorchScript, but for those of bad inputs.
- Events that are missing around operators which PyTorch runs otherwise for the backend than for the model,
  fused ones for instance.
- Without events, or with those of another clock than ``time.perf_counter_ns``: whether the handle of a
  failure is that of the operation that failed, or of another one.
- Whether ``is_available`` tells the truth, unless the test tells how to make the backend unavailable.
- Other inputs, methods and devices than those given: call it once for each.

A backend that is not available where it is examined is examined as far as that goes; notes say what is left.
Say ``available=False`` where that is meant, on a machine that only lowers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from archive.backend.conformance.checking import RULES, check, examine
from archive.backend.conformance.findings import Finding, Note, Report

if TYPE_CHECKING:
    from archive.backend.conformance.plugin import conformance

__all__ = ["RULES", "Finding", "Note", "Report", "check", "conformance", "examine"]


def __getattr__(name: str) -> object:
    """The fixture, when it is asked for: it needs pytest."""
    if name != "conformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.plugin").conformance
