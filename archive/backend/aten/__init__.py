"""The backend ``aten``: a method becomes a program of operators for a register machine, and runs on it."""
