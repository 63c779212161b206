"""The error class of a release."""


class ReleaseError(Exception):
    """A release cannot be made. The message says what is wrong and what to do."""
