"""What debug information says: the facts of a row, the columns they stand in, and PyTorch's text of them.

In: columns, made by ``formats`` or by ``companion``. Out: facts (``model``) made on demand from ``tables``;
frames and PyTorch's own text for debug handles (``symbolicate``, ``excerpt``). Files are not known here.
"""
