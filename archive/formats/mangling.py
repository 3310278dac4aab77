"""How PyTorch mangles the names of classes that are compiled twice: ``a.___torch_mangle_3.Block``.

The number is a counter of the process. Source: ``QualifiedName`` and ``CompilationUnit::mangle`` in
``torch/csrc/jit/api/compilation_unit.h`` and ``torch/csrc/jit/frontend/name_mangler.cpp`` of PyTorch 2.13.
"""

MANGLE = "___torch_mangle_"
"""Begins the part of a name that PyTorch inserted."""
MANGLED = MANGLE + r"\d+"
"""Such a part, as a pattern."""
