"""The compile spec: for each method to lower, the options that the backend is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from archive.backend.graph.inlining import compiled_name
from archive.effects.errors import LoweringError


def checked_spec(scripted: torch.jit.ScriptModule, given: object) -> dict[str, Any]:
    """The compile spec, checked; a method without options gets ``{"": ""}``, as in PyTorch's own tests.

    Options may be a text, too, as these tests have it. Without a spec, ``forward`` is lowered.

    Raises:
        LoweringError: it names no method, one that is not defined, or options that TorchScript cannot hold.
    """
    given = {"forward": {}} if given is None else given
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        raise LoweringError(f"expected method_compile_spec to be a dict by method names, found {given!r}")
    for name, options in given.items():
        if not scripted._c._has_method(compiled_name(scripted._c, name)):
            raise LoweringError(f"Method '{name}' is not defined.")
        if isinstance(options, str):
            continue
        if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
            raise LoweringError(
                f"method {name}: expected its compile spec to be a text, or a dict by names of options, "
                f"found {options!r}"
            )
        found = torch._C._jit_try_infer_type(dict(options)) if options else None
        if found is not None and not found.success():
            raise LoweringError(f"method {name}: TorchScript cannot hold its compile spec: {found.reason()}")
    return {
        name: options if isinstance(options, str) else dict(options) or {"": ""}
        for name, options in given.items()
    }
