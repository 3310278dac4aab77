"""Exported programs, as what a backend lowers: graph, schema, source ranges, and checks of each call.

In: a ``torch.export.ExportedProgram``. Out: an :class:`~archive.backend.registry.Original`, like that of a
module, and what TorchScript checks before each call (``program``). ``signature`` has parameters and results,
``graphs`` makes the graph of the nodes, ``traces`` their source ranges and calls.
"""
