"""The text of a log, without any model: bytes → lines → the stream that a failure's lines are of.

`recoding` unpacks a log and makes it UTF-8. `lines` reads lines ahead, and takes those together that `quiet`
finds nothing in; `cut_lines` joins those that a container runtime cut. Where a failure begins, `beginnings`
finds its *stream* (`streams`): the lines that have the same form around the text (`forms`); what holds
several of them as one text (`documents`) is opened above. A string of a line may hold a whole failure
(`strings`, `encodings`, `dialects`).
"""
