"""Turns a method of a scripted module into one graph of plain data, with all its calls followed.

In: a ``torch._C.ScriptModule`` and a method's name. Out: a :class:`~archive.backend.graph.graphs.Graph`, in
which each operation has its source range and its call stack; ``folding`` makes a smaller graph of it.
"""
