"""Pickles as data: bytes <-> tokens <-> trees, in columns. Nothing in here can execute anything.

In: records' bytes. ``scan`` finds each instruction (``walk``: where it begins), ``assemble`` the values that
each one takes (``brackets``, ``children``), ``tree`` holds the result. Out: a ``Tree``. Back: ``write`` lays
values out as PyTorch's pickler does.

These modules do what ``pickletools`` and a stack machine do in 25 lines. They stand here for speed: on large
records they are 12 to 55 times as fast (BENCHMARKS.md, "Decoding"). The plain way stands in
``tests/support/slow_reader.py`` and is compared with this one in ``tests/pickles``.
"""
