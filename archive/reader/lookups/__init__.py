"""One handle, node, kernel or instruction of a file → its source: what a command names, or a log shows."""
