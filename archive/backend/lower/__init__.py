"""Turns a module into a lowered one that stock PyTorch runs, and saves it with the model's source.

In: a module, a :class:`~archive.backend.registry.Backend`, and graphs of :mod:`archive.backend.graph`. Out: a
scripted module of generated source (``lowering``), and an archive whose debug handles lead to the model
(``saving``).
"""
