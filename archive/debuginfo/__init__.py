"""Debug information: the facts of a row, their columns, and the text that PyTorch makes from them.

In: columns, made by ``formats`` or by ``companion``. Out: facts (``model``), made on demand from tables;
frames and PyTorch's own text for debug handles (``symbolicate``, ``excerpt``); times and memory of runs at
these places (``profiles/``, the only part that knows files).
"""
