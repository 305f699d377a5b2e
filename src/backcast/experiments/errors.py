"""What goes wrong with experiments, told to the person who started them."""

from typing import final


@final
class SpecError(ValueError):
    """A spec that cannot be run. Its text is for the user: what was given, what is allowed."""


@final
class BusyError(RuntimeError):
    """Another process is working in the folder."""


@final
class StorageError(RuntimeError):
    """A folder cannot be written to: a full disk, a read-only place. Earlier results are whole."""
