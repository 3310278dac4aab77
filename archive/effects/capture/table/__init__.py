"""The state of one captured call, and the table of what the call changes."""
