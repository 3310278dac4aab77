"""Facts to text and JSON. Computes nothing, prints nothing."""
