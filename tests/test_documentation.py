"""Every page does what it says: its Python runs, its commands exist, its links lead somewhere."""

import functools
import re
import shlex
from pathlib import Path

import pytest

from backcast.cli.app import COMMANDS, app
from backcast.experiments import Study, built_in

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The code blocks of a page in a language, and the line each begins on."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start(2)) + 1, found[2])
        for found in BLOCK.finditer(text)
        if found[1] == language
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
@pytest.mark.usefixtures("quick_compiles")
def test_python_runs_block_after_block(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # dataclasses look their module up by its name.
    names = {"__name__": "__main__"}
    for line, code in blocks(page, "python"):
        padded = "\n" * (line - 1) + code  # so that a traceback names the line of the page
        exec(compile(padded, str(page), "exec"), names)


@pages
def test_commands_exist(page):
    for line, code in blocks(page, "sh"):
        for words in commands(code):
            assert known(words), f"{page.name}:{line}: {shlex.join(words)}"


@pages
def test_links_lead_somewhere(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            there = page.parent / path if path else page
            assert there.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def commands(code: str) -> list[list[str]]:
    """The commands of a block, without comments and variables set before them."""
    lines = code.replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"&&", line)]
    split = [shlex.split(part, comments=True) for part in parts]
    return [words[sum("=" in w for w in words[:1]) :] for words in split if words]


def known(words: list[str]) -> bool:
    """Whether a command can be run: its program, target, options and spec exist."""
    program = Path(words[0]).name
    if program == "uv" and words[1:2] == ["run"]:
        rest = words[2:]
        while rest[0] in ("--extra", "--python"):
            rest = rest[2:]
        return known(rest)
    if program == "make":
        return all(word in make_targets() for word in words[1:])
    if program == "backcast":
        return words[1] in COMMANDS and fits(words[1:])
    return program in {"git", "cd", "pip", "pytest", "python", "python3"}


@functools.cache
def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))


def fits(words: list[str]) -> bool:
    """Whether the command line can be understood; a spec of the package is among the built in."""
    _, bound, _ = app().parse_args(words, exit_on_error=False, print_error=False)
    spec = bound.arguments.get("spec")
    return spec is None or str(spec).endswith(".toml") or spec in built_in()


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


def test_every_spec_that_comes_along_can_be_read():
    assert all(Study.read(name).specs() for name in built_in())
