"""An application in which models fail → the same, whose logs and tracebacks explain the failures.

In flow the errors and log records that Python hands to its hooks; they flow on to whoever had them before,
explained by an :class:`~archive.Explainer`.

- ``sources`` opens what models come from: files, folders, stores, buckets and servers.
- ``explaining`` has ``explain`` and ``Explainer``, ``errors`` the texts of errors that it reads and notes.
- ``install`` takes the places of the hooks, that of what makes records of :mod:`logging` too, and gives them
  back; ``opentelemetry`` explains what an exporter is about to send. Nothing here raises, and nothing is held
  back: what cannot be explained in time goes on as it is.
"""
