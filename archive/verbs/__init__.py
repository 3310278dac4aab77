"""What the commands do, a file or folder each: an archive goes in, facts or another archive come out.

``inspect``, ``verify``, ``sizes`` and ``logs`` read; ``split``, ``join``, ``shrink``, ``convert`` and
``migrate`` write. ``compact`` makes records small, ``slim`` the zip; ``loading`` is what PyTorch checks when
it loads.
"""
