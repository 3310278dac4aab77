"""The parts that split, join, shrink, restore, migrate and convert share: they make files out of files.

``options`` declares the arguments they take, ``jobs`` plans which files are read and written, ``batch`` and
``pool`` do the work in parallel and print what comes of it, in the texts that ``words`` names. ``manifest``
remembers what is done, for the command that can be resumed.
"""
