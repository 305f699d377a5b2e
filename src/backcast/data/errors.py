"""What goes wrong with data, told to the person who gave it."""

from typing import final


@final
class DataError(ValueError):
    """Data that cannot be used as given. Its text is for the user: what is wrong, what to do."""
