"""Errors that the user can correct; the command line prints them as one line and exits 2."""


class UserError(Exception):
    """Bad input: the message says in one line what was wrong and what would be right."""


class DeviceUnavailable(UserError):
    """A device cannot be used here: the message names what is missing and what to install."""


class NotSupported(UserError):
    """A form cannot run on this device: the message names the next step."""


class OutOfMemory(UserError):
    """More memory was asked for than the device has."""


class CompileError(Exception):
    """A kernel does not compile: the first line is the compiler's first error, then its log."""
