"""A server of companions, asked over HTTP, as if its store lay here.

In flow the address of ``debug-archive serve``, and the facts about its companions; out flow those companions
that are needed, each fetched once and kept in the user's cache. Bytes and facts are checked against the list.
"""

TOKEN_VARIABLE = "DEBUG_ARCHIVE_TOKEN"  # noqa: S105 (the name of a variable)
"""The environment variable with the token that ``serve`` asks for and clients show."""
