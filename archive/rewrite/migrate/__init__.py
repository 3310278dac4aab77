"""Migration: an archive's debug information rewritten for another PyTorch release.

``migrate`` is the command, and compares the result with the original. ``records`` plans the steps, rewrites
records and puts them in the release's order, with ``ranges`` (layouts of source ranges) and ``stacks`` (call
stacks, handles and module paths). ``aside`` keeps the original in the archive and gives it back.
"""
