"""The parts that split, join, shrink, restore, migrate and convert share: they make files out of files.

``options`` declares the arguments they take; ``batch`` lets ``archive.batches`` do the work, and prints what
comes of it, in the texts that ``words`` names.
"""
