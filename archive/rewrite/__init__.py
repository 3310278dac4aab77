"""An archive → the same model, written otherwise; a companion holds what went, and gives it back.

``split`` takes debug info off; ``join`` puts it back, and so restores what ``shrink`` embedded. ``shrink``
makes debug records small (``compact``) and the zip (``slim``). ``convert`` gives another layout,
``canonicalise`` the same bytes for the same model, ``migrate`` carries a model to another release. ``kept``
says what stays in an archive. All take the same steps: see :mod:`archive.reader.rewriting`.
"""
