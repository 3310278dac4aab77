"""The debug records: one module a record, bytes <-> columns; its docstring is the specification."""
