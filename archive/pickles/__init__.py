"""Pickles as data: bytes <-> tokens <-> trees, in columns. Nothing in here can execute anything."""
