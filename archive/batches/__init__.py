"""Many files at once: files and folders → jobs, done in processes → an outcome each.

In flow the paths of files and folders; out flow files, and what came of each. ``inputs`` finds the files,
``jobs`` plans what is read and written, ``pool`` calls any function for each item in processes that may be
killed, ``working`` does one job, ``reading`` gives facts about files in their order, and ``manifest``
remembers what is done. Nothing is printed here.
"""
