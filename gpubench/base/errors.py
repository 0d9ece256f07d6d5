"""Errors that the user can correct; the command line prints them as one line and exits 2."""


class UserError(Exception):
    """Bad input: the message states in one line the mistake and how to correct it."""


class DeviceUnavailable(UserError):
    """A device cannot be used here: the message names what is missing and what to install."""


class NotSupported(UserError):
    """A variant cannot run on this device: the message names the next step."""


class OutOfMemory(UserError):
    """An allocation exceeds the available memory."""


class CompileError(Exception):
    """A kernel does not compile: the message is the compiler's first error, then its log."""
