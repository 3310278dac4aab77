"""A program that runs archives as a device runs them: by PyTorch, without this library.

It is started by its path and imports nothing of this library. It also reports whether it could::

    python -I archive/cli/demo/stock_program.py FILE... < CALLS

It reads a tuple of tensors as ``torch.save`` writes it: an input that the models take, the result that is
expected, and an input that the models fail with. It writes a dict as JSON:

==============  ============================================================================================
``pytorch``     its version
``importable``  whether this library can be imported
``runs``        for each file a dict: ``difference``, the largest one between the result and the expected one,
                None where it has another shape; and ``error``, the text of what the last input raises
==============  ============================================================================================
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from typing import Any

import torch
import torch.jit.mobile


def main() -> None:
    """Run the program."""
    sys.modules["archive"] = None  # type: ignore[assignment]  # as Python has it: never to be imported
    good, expected, bad = torch.load(io.BytesIO(sys.stdin.buffer.read()))
    runs = [_run(path, good, expected, bad) for path in sys.argv[1:]]
    facts = {"pytorch": torch.__version__, "importable": _importable("archive"), "runs": runs}
    sys.stdout.write(json.dumps(facts))


def _run(path: str, good: Any, expected: Any, bad: Any) -> dict[str, object]:  # noqa: ANN401
    """Load an archive, by the loader that its suffix names, and call it with both inputs."""
    load = torch.jit.mobile._load_for_lite_interpreter if path.endswith(".ptl") else torch.jit.load
    model = load(path)
    found = model(good)
    same_shape = found.shape == expected.shape
    difference = float((found - expected).abs().max()) if same_shape else None
    try:
        model(bad)
    except Exception as error:  # noqa: BLE001 (whatever a model raises)
        return {"difference": difference, "error": str(error)}
    return {"difference": difference, "error": ""}


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    main()
