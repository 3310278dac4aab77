"""Pickles as data: bytes <-> tokens <-> trees, in columns. Nothing in here can execute anything.

In: records' bytes. ``scan`` finds each instruction (``walk``: where it begins), ``assemble`` the values that
each one takes, ``tree`` holds the result. Out: a ``Tree``. Back: ``write`` lays values out as PyTorch's
pickler does.

These modules replace 25 lines of ``pickletools`` and a stack machine, for speed: on real records they take a
fraction of its time and memory (BENCHMARKS.md, "Decoding"). The plain way stands in
``tests/support/slow_reader.py`` and is compared with this one in ``tests/pickles``.
"""
