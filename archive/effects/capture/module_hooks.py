"""Calls of modules that have hooks, in the order of ``torch.nn.Module._call_impl``.

A hook is code of the model like ``forward``: its copy runs on proxies, and what it changes is an effect.
Backward hooks (:mod:`archive.effects.capture.backward_hooks`) run later, where nothing is captured.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torch.nn.modules.lazy import LazyModuleMixin

from archive.effects.capture.backward_hooks import BackwardHooking
from archive.effects.capture.hook_copies import follow
from archive.effects.capture.hook_sets import (
    ALWAYS_CALLED,
    BACKWARD,
    BACKWARD_PRE,
    FORWARD,
    MODULE_HOOKS,
    PRE,
    WITH_KEYWORDS,
    are_global,
    hooks_of,
    note_hooks,
)
from archive.effects.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.call import CapturedCall


def call_module(call: CapturedCall, proxy: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    """Call a module as PyTorch does.

    Args:
        call: the captured call.
        proxy: of the module.
        args: positional arguments.
        kwargs: arguments by name.

    Raises:
        CaptureError: one of its hooks cannot be followed.
    """
    variable = call.side_effects[proxy]
    real = call.real[variable]
    if isinstance(real, LazyModuleMixin) and real.has_uninitialized_params():
        name = type(real).__name__
        call.refuse(f"a {name}, whose first call makes its parameters: call the model once before")
    if are_global():
        call.refuse(f"a {type(real).__name__} called while all modules have hooks")
    if not any(hooks_of(call, variable).get(kind) for kind in MODULE_HOOKS):
        return proxy.forward(*args, **kwargs)
    return _HookedCall(call, proxy, args, kwargs).run()


class _HookedCall:
    """One call of a module that has hooks.

    Args:
        call: the captured call.
        proxy: of the module.
        args: positional arguments, which hooks may replace.
        kwargs: arguments by name, which hooks may replace.
    """

    def __init__(
        self,
        call: CapturedCall,
        proxy: Any,  # noqa: ANN401
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._call, self._proxy = call, proxy
        self._args, self._kwargs = args, kwargs
        self._result: Any = None
        variable = call.side_effects[proxy]
        self._own = hooks_of(call, variable)
        for kind in MODULE_HOOKS:
            if self._own[kind]:
                note_hooks(call, variable, kind)
        self._left = set(self._own[ALWAYS_CALLED])

    def run(self) -> Any:  # noqa: ANN401
        """Call the hooks and ``forward``; gives the result."""
        try:
            self._before()
            backward = self._backward()
            if backward is not None:
                self._args = backward.before(self._args)
            self._result = self._proxy.forward(*self._args, **self._kwargs)
            for number, hook in self._hooks(FORWARD):
                self._left.discard(number)
                self._after(number, hook)
            if backward is not None:
                self._result = backward.after(self._result)
        except CaptureError:
            raise
        except Exception:
            self._after_failure()
            raise
        return self._result

    def _backward(self) -> BackwardHooking | None:
        return (
            BackwardHooking(self._call, self._proxy)
            if self._own[BACKWARD] or self._own[BACKWARD_PRE]
            else None
        )

    def _before(self) -> None:
        """Call the hooks before ``forward``."""
        for number, hook in self._hooks(PRE):
            if number not in self._own[WITH_KEYWORDS[PRE]]:
                given = hook(self._proxy, self._args)
                if given is not None:
                    self._args = given if isinstance(given, tuple) else (given,)
                continue
            given = hook(self._proxy, self._args, self._kwargs)
            if given is None:
                continue
            if not isinstance(given, tuple) or len(given) != 2:  # noqa: PLR2004 (a pair)
                raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs)")
            self._args, self._kwargs = given

    def _after(self, number: int, hook: Any) -> None:  # noqa: ANN401
        """Call a hook after ``forward``, which may replace the result."""
        named = (self._kwargs,) if number in self._own[WITH_KEYWORDS[FORWARD]] else ()
        found = hook(self._proxy, self._args, *named, self._result)
        if found is not None:
            self._result = found

    def _after_failure(self) -> None:
        """Call the hooks that are always called; their own errors are warnings."""
        for number, hook in self._hooks(FORWARD):
            if number not in self._left:
                continue
            try:
                self._after(number, hook)
            except CaptureError:
                raise
            except Exception as error:  # noqa: BLE001 (as PyTorch does)
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception "
                    f"that was silenced as another error was raised in forward: {error}",
                    stacklevel=2,
                )

    def _hooks(self, kind: str) -> Iterator[tuple[int, Any]]:
        """Hooks of a kind by their numbers, each as the model's code calls it."""
        for number, hook in list(self._own[kind].items()):
            yield number, follow(self._call, hook)
