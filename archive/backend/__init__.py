"""Modules lowered to a backend, and whatever goes wrong in them led back to the model. Needs PyTorch.

The way of a module: ``graphs`` follows all calls of its TorchScript graphs, ``places`` finds where each node
stands, ``folding`` does what can be done beforehand, ``emitting`` writes the rest as TorchScript, one
statement an operation, ``lowering`` makes a module of it, and ``saving`` writes that with the model's source.
"""

from archive.backend.errors import LoweringError
from archive.backend.lowering import lower
from archive.backend.saving import Saved, save_lowered

__all__ = ["LoweringError", "Saved", "lower", "save_lowered"]
