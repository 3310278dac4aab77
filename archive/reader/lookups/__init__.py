"""One handle, node, kernel, instruction or call stack of a file → its source: what commands and logs name."""
