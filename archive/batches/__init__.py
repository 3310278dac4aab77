"""Many files at once: files, folders and globs → jobs, done in processes or on a cluster → an outcome each.

In flow the paths of files and folders, here or remote; out flow files, and what came of each. ``inputs``
finds the files. ``outcome`` has the loop over them, whatever is done: by ``pool``, in processes of this
machine or on any executor. To make files, ``jobs`` plans what is read and written, ``working`` does one job,
and ``manifest`` remembers it; ``reading`` gives facts, which ``noted`` may keep; both keep lines in a
``line_file``. Nothing is printed here.
"""
