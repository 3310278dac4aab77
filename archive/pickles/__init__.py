"""Pickles as data: bytes <-> tokens <-> trees, in columns. Nothing in here can execute anything.

In: records' bytes. ``scan`` finds each instruction and the values that it takes, in one loop; ``tree`` holds
the result. Out: a ``Tree``. Back: ``write`` lays values out as PyTorch's pickler does. ``ops`` declares the
opcodes.

An independent reader, which builds Python objects, is in ``tests/support/slow_reader.py`` and is compared
with this one in ``tests/pickles``.
"""
