"""Where specs come from: TOML files, those that come with the package, and those like them."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from backcast.experiments import toml
from backcast.experiments.errors import SpecError
from backcast.experiments.fields import suggestion
from backcast.experiments.spec import Spec, merged


def built_in() -> list[str]:
    """The names of the specs that come with the package."""
    folder = resources.files("backcast.experiments") / "specs"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".toml"))


def source(name_or_path: str | Path) -> dict[str, Any]:
    """The plain data of a built-in spec by its name, or of a TOML file.

    One that says ``like = "permuted-mnist"`` is that built-in spec with changes, by the rule of
    `Spec.changed`. What is varied and chosen there is not taken over: that is of each file's own.
    """
    return _resolved(_stored(name_or_path))


def _stored(name_or_path: str | Path) -> dict[str, Any]:
    name = str(name_or_path)
    if name in built_in():
        return _packed(name)
    path = Path(name_or_path)
    if not path.exists() and path.suffix != ".toml" and path.name == name:
        raise SpecError(
            f"There is no spec {suggestion(name, built_in())}. Or give the path of a TOML file."
        )
    return toml.read(path)


def _packed(name: str) -> dict[str, Any]:
    file = resources.files("backcast.experiments") / "specs" / f"{name}.toml"
    return toml.parse(file.read_text(encoding="utf-8"), name)


def _resolved(plain: dict[str, Any]) -> dict[str, Any]:
    """Plain data without ``like``: those of the spec that it names, with changes."""
    if "like" not in plain:
        return plain
    like = plain["like"]
    if like not in built_in():
        raise SpecError(f"like: there is no built-in spec {suggestion(str(like), built_in())}.")
    whole = Spec.parse(_only(_resolved(_packed(like)), Spec.model_fields)).plain()
    return merged(whole, _only(plain, set(plain) - {"like"}))


def _only(plain: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    wanted = set(names)
    return {name: value for name, value in plain.items() if name in wanted}
