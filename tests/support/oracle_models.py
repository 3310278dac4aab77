"""The models that the archives of ``fixtures/oracles`` were made from."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from typing import Any

from tests.support.corpus import ORACLES

MODELS = ORACLES / "models" / "lowered.py"


@cache
def oracle_models() -> Any:  # noqa: ANN401 (a module of models)
    """The module of lowered models."""
    spec = importlib.util.spec_from_file_location("oracle_models_lowered", MODELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
