"""Exported programs, parts of which a backend runs, and PyTorch the rest.

In: a ``torch.export.ExportedProgram`` and a backend. Out: a program that calls the backend for each
*partition*, a set of nodes that are lowered together. ``torch.export.save`` writes it, with debug handles,
and ``torch.export.load`` reads it in a process that has imported :mod:`archive.backend`. ``choosing`` says
which nodes are lowered, ``cutting`` makes a program of each partition, ``lowering`` the whole one,
``delegates`` is the operator that runs a partition, and ``states`` writes a backend's state as text and
tensors. ``stepping`` runs a program node by node, ``profiling`` times that.
"""
