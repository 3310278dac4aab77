"""An opened archive → the data of its report page → one self-contained HTML file.

``facts`` puts the data together, and its docstring is their specification; ``head``, ``sizes``, ``modules``,
``sources``, ``traced``, ``kernels``, ``handles``, ``tables``, ``findings`` and ``review`` make a section
each, and ``bounding`` cuts what would be too large. ``document`` packs data, style and script (built to
``bundle/`` by ``tools/page``) into the file; ``summary`` makes what it says without the script, of the forms
of ``markup``. ``report`` goes from files to files; ``folder`` makes the page
of many files, and ``inventory`` fills it with an inventory.
"""
