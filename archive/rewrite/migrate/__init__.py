"""Migration: an archive's debug information rewritten for another PyTorch release.

``migrate`` is the command. ``rewriting`` plans and rewrites records, with ``ranges`` (layouts of source
ranges), ``stacks`` (call stacks, handles and module paths, with ``instructions`` and ``paths``) and ``blobs``
(handles of lowered modules). ``members`` puts the records in the release's order, ``aside`` keeps the
original in the archive and gives it back, and ``check`` compares the result with the original.
"""
