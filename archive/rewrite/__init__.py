"""An archive → the same model, written otherwise; a companion holds what went, and gives it back.

``split`` takes debug info off, ``join`` puts it back. ``shrink`` makes debug records small (``compact``) and
the zip (``slim``), and restores them. ``convert`` gives another layout, ``canonicalise`` the same bytes for
the same model, ``migrate`` carries a model to another release. ``kinds`` says what stays in a ``.pt2``.
"""
