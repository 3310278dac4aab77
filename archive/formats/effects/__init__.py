"""What a method changes besides giving results: a table of effects, as facts, as a record, and as Python."""
