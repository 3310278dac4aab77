"""A file → what is in it, and how much.

``inspect`` and ``sizes`` are the commands. ``listing`` lists a zip that isn't an archive, ``effects`` what a
method changes, ``program_facts`` what is in exported programs and compiled models,
``runtime`` what ExecuTorch noted of its runs, and where their time went. ``inventory`` has a row for each of
many files.
"""
