"""The one tree of exceptions: whatever the project raises itself derives from HeadroomError.

Each branch says what a caller can do about it, and each exception stands where it is raised. The
standard library's ValueError remains for arguments that no caller may pass.
"""

from __future__ import annotations


class HeadroomError(Exception):
    """The root: catch it to catch everything that the project raises itself."""


class InvalidInput(HeadroomError, ValueError):
    """What was given cannot be used: a request, a name, a file, a document. Change it."""


class NotFound(HeadroomError, LookupError):
    """What was referred to does not exist. Refer to something else."""


class Conflict(HeadroomError):
    """What was given contradicts what is stored by now. Read it again and decide."""


class Unavailable(HeadroomError):
    """A database, a service or the network failed. Try again later."""
