"""Exported programs: the records of ``.pt2`` archives that hold debug information.

In: JSON records. Out: programs, their sites, what each text of a node's metadata says, and the texts again.
``traces``, ``modules``, ``functions`` and ``origins`` are the kinds of metadata, ``program`` is the record.
"""
