"""Many files at once: files, folders and globs → jobs, done in processes or on a cluster → an outcome each.

In flow the paths of files and folders, here or remote; out flow files, and what came of each. ``inputs``
finds the files, ``jobs`` plans what is read and written, ``working`` does one job, and ``batch`` all of them:
by ``pool``, in processes of this machine or on any executor. ``manifest`` remembers what is done, ``reading``
gives facts about files, and ``noted`` notes them in a manifest. Nothing is printed here.
"""
