"""An opened archive → the data of its report page → one self-contained HTML file.

``facts`` puts the data together, and its docstring is their specification; ``head``, ``sizes``, ``sources``,
and ``findings`` give a section each. ``document`` packs data, style and script, which ``tools/page`` builds
to ``bundle/``, into the file. ``report`` is the way from files to files, and ``folder`` the page of many.
"""
