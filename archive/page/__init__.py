"""An opened archive → the data of its report page → one self-contained HTML file.

``facts`` puts the data together, and its docstring is their specification; ``head``, ``sizes``, ``modules``,
``sources``, ``traced``, ``kernels``, ``handles``, ``tables``, ``findings`` and ``review`` give one each, and
``bounding`` cuts what would be too large. ``document`` packs data, style and script (built to ``bundle/``
by ``tools/page``) into the file. ``report`` is the way from files to files, ``folder`` the page of many, of
which ``inventory`` has the rows of an inventory.
"""
