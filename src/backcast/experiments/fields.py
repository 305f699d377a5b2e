"""What specs are made of: frozen tables of checked fields, and messages about what is wrong."""

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from backcast.experiments.errors import SpecError


class Table(BaseModel):
    """A table of a spec: what it does not know it refuses, and it never changes."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and (problem := unknown(given, cls.model_fields)):
            raise PydanticCustomError("sentence", "{problem}", {"problem": problem})
        return given

    @classmethod
    def parse(cls, plain: Mapping[str, Any], path: str = "") -> Any:
        """The table that plain data describe.

        Args:
            plain: as read from TOML.
            path: where it stands in the file, for messages.

        Raises:
            SpecError: it lists everything that is wrong.
        """
        try:
            return cls.model_validate(plain)
        except ValidationError as error:
            raise SpecError(_explained(error, plain, path)) from None

    def plain(self) -> dict[str, Any]:
        """Plain data, with all fields but those that are None."""
        return self.model_dump(mode="json", exclude_none=True)


def unknown(given: Iterable[str], allowed: Iterable[str]) -> str | None:
    """What to say about names that are not allowed, if there are any."""
    allowed = list(allowed)
    strange = [str(name) for name in given if name not in allowed]
    if not strange:
        return None
    return "; ".join(f"there is no field {suggestion(name, allowed)}" for name in strange) + "."


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """A name that is not known, the one that was meant, and all that may be given."""
    allowed = list(allowed)
    close = difflib.get_close_matches(name, allowed, 1, cutoff=0.5)
    meant = f", did you mean '{close[0]}'?" if close else "."
    return f"'{name}'{meant} There is: {', '.join(allowed)}"


def known_kind(union: Any) -> BeforeValidator:
    """Refuses a table whose ``kind`` is none of a union's, before anything else is said of it."""
    kinds = [table.model_fields["kind"].default for table in get_args(union)]

    def check(given: Any) -> Any:
        if isinstance(given, Table):
            return given
        if not isinstance(given, Mapping):
            problem = f"must be a table with a kind, one of {', '.join(kinds)}"
        elif "kind" not in given:
            problem = f"say of which kind: kind = one of {', '.join(kinds)}"
        elif given["kind"] not in kinds:
            problem = f"there is no kind {suggestion(str(given['kind']), kinds)}"
        else:
            return given
        raise PydanticCustomError("sentence", "{problem}", {"problem": problem + "."})

    return BeforeValidator(check)


def _amount(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("amount", "must be a share such as 0.1 or a number such as 500")
    if isinstance(value, float) and not (math.isfinite(value) and 0 <= value < 1):
        raise PydanticCustomError("amount", "is a share, and must be at least 0 and below 1")
    if value < 0:
        raise PydanticCustomError("amount", "is a number of examples, and must be at least 0")
    return value


Whole = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=1)]
Positive = Annotated[float, Field(strict=True, gt=0)]
NonNegative = Annotated[float, Field(strict=True, ge=0)]
Real = Annotated[float, Field(strict=True)]
Fraction = Annotated[float, Field(strict=True, ge=0, lt=1)]
Flag = Annotated[bool, Field(strict=True)]
Amount = Annotated[int | float, BeforeValidator(_amount)]
"""A share of all examples (a float below 1), or a number of them (an integer)."""
Text = Annotated[str, Field(strict=True, min_length=1)]


def _explained(error: ValidationError, plain: Mapping[str, Any], path: str) -> str:
    items = error.errors(include_url=False)
    places = [_place(item["loc"], plain, path) for item in items]
    # Where one of several forms was nearly met, what is said of the others is noise.
    sharpest = [p for p in places if not any(q != p and _within(q, p) for q in places)]
    lines = []
    for place in dict.fromkeys(sharpest):
        said = [item for item, p in zip(items, places, strict=True) if p == place]
        words = " or ".join(dict.fromkeys(map(_words, said)))
        if not words.endswith("."):
            words = f"{words}, but {said[0]['input']!r} was given."
        lines.append(f"{place}: {words}" if place else words)
    return "\n".join(lines)


def _within(inner: str, outer: str) -> bool:
    return bool(outer) and inner.startswith((f"{outer}.", f"{outer}["))


def _place(loc: tuple[int | str, ...], plain: Any, path: str) -> str:
    """The dotted path of a field, without the kinds that pydantic puts between."""
    for part in loc:
        if isinstance(part, int):
            path = f"{path}[{part}]"
            plain = plain[part] if isinstance(plain, list | tuple) and part < len(plain) else None
        elif isinstance(plain, Mapping) and part not in plain and part == plain.get("kind"):
            continue
        elif isinstance(plain, Mapping):
            path = f"{path}.{part}" if path else str(part)
            plain = plain.get(part)
    return path


def _words(item: Any) -> str:
    """What was wrong: a whole sentence, or a rule that was not kept."""
    context = item.get("ctx", {})
    match item["type"]:
        case "missing":
            return "must be given."
        case "sentence":
            return context["problem"]
        case "value_error":
            return f"{context['error']}."
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "greater_than":
            return f"must be above {context['gt']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}"
        case "less_than":
            return f"must be below {context['lt']:g}"
        case "int_type":
            return "must be a whole number"
        case "float_type" | "finite_number":
            return "must be a finite number"
        case "bool_type":
            return "must be true or false"
        case "string_type" | "string_too_short":
            return "must be a text"
        case "literal_error":
            return f"must be {context['expected']}"
        case "tuple_type":
            return "must be a list"
        case "too_short":
            return f"must be a list of at least {context['min_length']}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "must be a table"
    return item["msg"]
