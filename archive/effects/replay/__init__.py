"""A table and a state become changes: all computed first, all made, or all undone."""
