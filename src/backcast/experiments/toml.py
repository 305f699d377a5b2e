"""Plain data as TOML, to be read again by `tomllib` as the same data."""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backcast.experiments.errors import SpecError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(path: Path) -> dict[str, Any]:
    """The plain data of a TOML file."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise SpecError(f"There is no {path}. Give the path of a spec, a TOML file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {error}.") from error


def parse(text: str, source: str = "The spec") -> dict[str, Any]:
    """The plain data of TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{source} is not TOML: {error}.") from None


def dumps(plain: Mapping[str, Any]) -> str:
    """TOML of plain data: values first, then each table under its heading."""
    return "\n".join(_table(plain, ())).lstrip("\n") + "\n"


def _table(plain: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    own = {k: v for k, v in plain.items() if not isinstance(v, Mapping)}
    tables = {k: v for k, v in plain.items() if isinstance(v, Mapping)}
    heading = ["", f"[{'.'.join(map(_key, path))}]"] if path and (own or not tables) else []
    lines = heading + [f"{_key(key)} = {_value(value)}" for key, value in own.items()]
    for key, table in tables.items():
        lines += _table(table, (*path, key))
    return lines


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            # Python's shortest form that reads back as the same number is TOML's as well.
            return repr(value) if math.isfinite(value) else str(value)
        case str():
            # JSON escapes what TOML must have escaped, except for DEL.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            inner = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items())
            return f"{{ {inner} }}" if inner else "{}"
    raise TypeError(f"TOML has no {type(value).__name__}: {value!r}.")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)
