"""Whose a source file is, judged only by its name: PyTorch's own, generated code, or somebody's.

If a file of PyTorch is mistaken for a model's, it is named as the cause of a failure. If a line of the model
is mistaken for PyTorch's, no answer names it, and ``leaks`` skips its source. The second is worse, so a file
counts as PyTorch's only if hardly anybody else has one with that name:

- below ``site-packages/torch/`` or ``dist-packages/torch/``, perhaps in an egg there; or
- one of PyTorch's own that models run through, wherever its folder ``torch`` is: a checkout, ``/opt``, or a
  name that begins with it. Such a folder alone proves nothing: ``/home/ann/torch/model.py`` is Ann's.
"""

from __future__ import annotations

import re

INSTALLED = r"(?:^|[/\\])(?i:site|dist)-(?i:packages)[/\\](?:torch(?:-[^/\\]*)?\.egg[/\\])?torch[/\\]"
ELSEWHERE = r"""(?:^|[/\\])(?:code/torch/jit\.py|torch[/\\](?:
      nn[/\\](?:modules|quantized|qat|quantizable|intrinsic|parallel)[/\\].+
    | nn[/\\](?:__init__|_reduction|functional|init|parameter)\.py
    | ao[/\\](?:nn|ns|pruning|quantization)[/\\].+
    | jit[/\\](?:__init__|_\w+|annotations|frontend)\.py
    | _(?:C|decomp|dispatch|dynamo|export|functorch|higher_order_ops|inductor|library|prims|prims_common|refs
      |subclasses)[/\\].+
    | _(?:VF|guards|jit_internal|linalg_utils|lobpcg|lowrank|meta_registrations|ops|six|tensor|tensor_str)\.py
    | (?:autograd|export|fx)[/\\](?:__init__|_\w+|function|grad_mode|graph_module|interpreter|proxy)\.py
    | (?:functional|overrides|tensor)\.py
    ))\Z"""
"""``code/torch/jit.py`` is TorchScript's code of lowered modules."""
PYTORCH_FILE = re.compile(rf"{INSTALLED}|(?x:{ELSEWHERE})")
GENERATED = re.compile(r"<(?!stdin>|console>|i?python-input)")
"""Begins the name of generated code, unlike that of code that was typed."""


def is_pytorchs(filename: str) -> bool:
    """Whether a source file is one of PyTorch's.

    >>> [is_pytorchs(f"/home/ann/torch/{file}") for file in ("nn/modules/linear.py", "model.py")]
    [True, False]
    """
    return PYTORCH_FILE.search(filename) is not None


def is_no_models(filename: str) -> bool:
    """Whether nobody wrote a frame's code for the model: it is PyTorch's, or generated, and not typed."""
    return GENERATED.match(filename) is not None or is_pytorchs(filename)
