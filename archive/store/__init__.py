"""A store: a folder that keeps the companions of many models, each found by what a log says of it.

In flow companions, and archives whose companions are made here; out flow companions to the byte, and the
facts by which a failure names its model.

::

    debug-archive-store   marks the folder: the format's version
    companions/ID.kept    a companion, as what differs from its base, another one: :mod:`~archive.store.kept`
    bases/DIGEST.kept     a removed companion that others are still stored as differences from
    index.sqlite          the facts of all companions: :mod:`~archive.store.index`
    lock                  held while companions are added and removed: :mod:`~archive.store.folder`

The files of companions are the store; each is absent or whole. The index is rebuilt from them wherever it is
missing, broken or old. In a bucket, a store has another form: :mod:`~archive.store.bucket`.
"""
