"""The work of the commands, a file or folder each: an archive goes in, facts or another archive come out.

``inspect``, ``listing``, ``verify``, ``sizes``, ``lookups`` and ``logs`` read; ``split``, ``join``,
``shrink``, ``convert`` and ``migrate`` write. ``compact`` makes debug records small, ``slim`` the zip.
``loading`` lists the checks of PyTorch's loaders.
"""
