"""The backend ``backend_with_compiler_demo``: additions and subtractions, as in PyTorch's own example.

In: a method's graph. Out: a text (``backend``), which a runtime in TorchScript's language runs (``runtime``).
"""
