"""What the commands have in common: where notices go, and what exit statuses mean."""

from rich.console import Console

#: What was asked or given is wrong: the problem tells what.
REFUSED = 1
#: The command was spelled wrongly.
MISUSED = 2
#: The server, the Hub or the database cannot be reached, or failed.
UNREACHABLE = 3
#: Answered, but the deployment does not fit; only with ``--must-fit``.
DOES_NOT_FIT = 4

#: What the help of commands that ask ends with.
EPILOG = (
    "\n\nExit status: 0 success, 1 request refused, 2 wrong usage, 3 server not reached, 4 "
    "does not fit (--must-fit).\n"
)


def screen(width: int | None = None) -> Console:
    """Where answers go. All text is printed as it is: names may have brackets."""
    return Console(highlight=False, markup=False, width=width)


notices = Console(stderr=True, highlight=False, markup=False)
