"""A module becomes a lowered one: its statements generated, linked to a backend, saved with their sources."""
