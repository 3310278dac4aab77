"""Times and memory of a run, told by module, line and operator of the model; as text and as a trace."""
