"""The debug records: one module per record, bytes <-> columns; its docstring is the specification.

In: a ``Tree`` of pickles. Out: the tables of ``debuginfo``. Back: tables become the bytes that PyTorch
writes. Each docstring names the source file of PyTorch that writes the record and the one that reads it.
"""
