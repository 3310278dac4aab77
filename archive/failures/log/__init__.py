"""The text of a log, without any model: bytes → lines → the stream of a failure's lines.

`recoding` unpacks a log and makes it UTF-8. `lines` reads lines ahead, and takes together those in which
`quiet` finds nothing, by a `sieve` for all words of failures at once; `cut_lines` joins those that a
container runtime cut. Where a failure begins, `beginnings` finds its *stream* (`streams`): the lines with the
same form around the text (`forms`); what holds several of them as one text (`documents`) opens above. A
string in a line may hold a whole failure (`strings`, `encodings`, `dialects`).

Where a failure ends isn't decided here: :class:`~archive.failures.failure.Failure` says it, and `streams`
only where it must end before that.
"""
