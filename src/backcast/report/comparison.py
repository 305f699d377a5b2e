"""Which groups of runs may be compared: those that learned the same tasks from the same data."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from backcast.experiments import Facts, Group


@final
@dataclass(frozen=True)
class Comparison:
    """Groups of runs of the same data and the same stream of tasks.

    Attributes:
        title: the data and the stream, in words.
        groups: the groups.
    """

    title: str
    groups: tuple[Group, ...]

    @property
    def facts(self) -> Facts:
        """What is known of the stream."""
        return self.groups[0].facts


def comparisons(groups: Iterable[Group]) -> list[Comparison]:
    """The groups, those together that learned the same tasks."""
    together: dict[str, list[Group]] = {}
    for group in groups:
        spec = group.runs[0].spec.plain()
        same = json.dumps([spec["data"], spec["stream"], group.facts.tasks], sort_keys=True)
        together.setdefault(same, []).append(group)
    titles = [_title(members[0]) for members in together.values()]
    return [
        Comparison(_numbered(title, titles, index), tuple(members))
        for index, (title, members) in enumerate(zip(titles, together.values(), strict=True))
    ]


def _title(group: Group) -> str:
    spec: dict[str, Any] = group.runs[0].spec.plain()
    tasks = len(group.facts.tasks)
    where = spec["data"].get("folder") or spec["data"].get("path")
    data = f"{spec['data']['kind']} {where}" if where else spec["data"]["kind"]
    return f"{data}, {spec['stream']['kind']}, {tasks} {'task' if tasks == 1 else 'tasks'}"


def _numbered(title: str, titles: list[str], index: int) -> str:
    """Settings that differ in smaller things are told apart by a number."""
    if titles.count(title) == 1:
        return title
    return f"{title} ({titles[: index + 1].count(title)})"
