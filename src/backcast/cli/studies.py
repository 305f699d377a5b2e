"""A study from its name and what was set beside it."""

import tomllib
from collections.abc import Iterable
from typing import Any

from backcast.experiments import SpecError, Study
from backcast.experiments.sources import source
from backcast.experiments.spec import merged, nested


def study(name: str, changes: Iterable[str] | None = None, seed: int | None = None) -> Study:
    """The study of a file, or the one built in by this name, with changes.

    Args:
        name: the path of the file, or the name.
        changes: ``field=value`` for any field of the file, by its dotted name.
        seed: the seed, if it is not to be the file's.

    Raises:
        SpecError: it lists what is wrong.
    """
    plain = source(name)
    for change in changes or ():
        plain = merged(plain, nested(*parted(change)))
    return Study.parse(plain if seed is None else {**plain, "seed": seed})


def parted(change: str) -> tuple[str, Any]:
    """The field and the value of ``field=value``."""
    field, equals, value = change.partition("=")
    if not equals or not all(field.strip().split(".")):
        raise SpecError(
            f"--set {change}: give a field and its value, as in --set method.rank=20 or "
            "--set 'network.hidden=[64, 64]'."
        )
    return field.strip(), value_of(value.strip())


def value_of(text: str) -> Any:
    """A value as TOML has it (``20``, ``1e-3``, ``true``, ``[64, 64]``), or else a text."""
    try:
        [value] = tomllib.loads(f"value = {text}").values()
    except ValueError:  # no TOML, or more than one value
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text
