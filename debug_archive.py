"""Starts ``debug-archive``, or says in one line that another distribution's ``archive`` stands in its place.

Others install a package ``archive``, too; of two in one environment, the later one's files are there. This
module is nobody else's, and imports nothing before it runs.
"""

from __future__ import annotations

import sys

ADVICE = "install debug-archive anew, in an environment of its own"


def main() -> None:
    """Run the command.

    Raises:
        SystemExit: always, with the exit status.
    """
    problem = stranger()
    if problem:
        sys.stderr.write(f"debug-archive: {problem}: {ADVICE}\n")
        sys.exit(2)
    from archive.cli import main as run  # noqa: PLC0415 (it may be another's)

    run()


def stranger() -> str:
    """Whose package ``archive`` is imported where it is not this project's; else ""."""
    try:
        import archive  # noqa: PLC0415 (it may be another's)
    except Exception as error:  # noqa: BLE001 (whatever another's package raises)
        return f"the package archive cannot be imported ({type(error).__name__}: {error}){_owners()}"
    if getattr(archive, "__distribution__", None) == "debug-archive":
        return ""
    places = [getattr(archive, "__file__", None), *getattr(archive, "__path__", ())]
    place = next((place for place in places if place), "somewhere")
    return f"{place} is not this project's package archive{_owners()}"


def _owners() -> str:
    """The other distributions that install a package ``archive``."""
    from importlib.metadata import packages_distributions  # noqa: PLC0415 (this is no usual start)

    names = {*packages_distributions().get("archive", [])} - {"debug-archive"}
    return f", but that of {' and '.join(sorted(names))}" if names else ""


if __name__ == "__main__":
    main()
