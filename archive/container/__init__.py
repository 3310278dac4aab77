"""The zip as PyTorch writes it: a file becomes named records, and records become the same file again.

In: the bytes of a file. Out: a ``Container``, whose records are views into it, inflated and checked when they
are first read. Back: members become a zip again, by PyTorch's own layout rules (``headers``).
"""
