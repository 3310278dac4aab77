"""A call of an eager module becomes a graph and a table of what the call changes."""
