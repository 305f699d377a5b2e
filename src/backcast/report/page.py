"""One page that holds everything: no script, no network, nothing beside it."""

import html
from collections.abc import Sequence
from importlib import resources

import backcast
from backcast.experiments import RunFolder
from backcast.report.comparison import Comparison
from backcast.report.style import Drawing
from backcast.report.svg import inline
from backcast.report.tables import Table

Section = tuple[Comparison, Sequence[Drawing], Sequence[Table]]
"""A comparison with its figures and tables."""


def page(title: str, sections: Sequence[Section], about: Sequence[Table]) -> str:
    """The page.

    Args:
        title: what it is called.
        sections: what there is to compare.
        about: tables about the runs themselves.
    """
    style = (resources.files("backcast.report") / "page.css").read_text(encoding="utf-8")
    links = [(f"section-{i}", section[0].title) for i, section in enumerate(sections, 1)]
    links.append(("runs", "Runs"))
    contents = "\n".join(f'<li><a href="#{i}">{html.escape(name)}</a></li>' for i, name in links)
    runs = [
        run for comparison, _, _ in sections for group in comparison.groups for run in group.runs
    ]
    body = "\n".join(_section(i, *section) for i, section in enumerate(sections, 1))
    tables = "\n".join(table.html() for table in about)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="backcast {html.escape(backcast.__version__)}">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<header>
<h1>{html.escape(title)}</h1>
<p>{_lede(runs)}</p>
<nav aria-label="Contents"><ul>
{contents}
</ul></nav>
</header>
<main>
{body}
<section aria-labelledby="runs">
<h2 id="runs">Runs</h2>
{tables}
</section>
</main>
<footer><p>Made by backcast {html.escape(backcast.__version__)}.</p></footer>
</body>
</html>
"""


def _lede(runs: Sequence[RunFolder]) -> str:
    """How much there is, and what made it."""
    seeds = len({run.spec.seed for run in runs})
    commits = {run.environment.get("commit") for run in runs}
    commit = (
        f"commit {str(next(iter(commits)))[:10]}"
        if len(commits) == 1
        else f"{len(commits)} commits"
    )
    return html.escape(
        f"{len(runs)} finished {'run' if len(runs) == 1 else 'runs'}, {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}, {commit if commits != {None} else 'commit unknown'}."
    )


def _section(
    number: int, comparison: Comparison, drawings: Sequence[Drawing], tables: Sequence[Table]
) -> str:
    first, *others = tables
    figures = "\n".join(
        f"<figure>\n{inline(drawing, f'figure-{number}-{i}')}\n"
        f"<figcaption>{html.escape(drawing.caption)}</figcaption>\n</figure>"
        for i, drawing in enumerate(drawings, 1)
    )
    specs = "\n".join(
        f"<details>\n<summary>{html.escape(group.label)}, "
        f"{'seed' if len(group.runs) == 1 else 'seeds'} "
        f"{', '.join(str(run.spec.seed) for run in group.runs)}</summary>\n"
        f'<pre tabindex="0">{html.escape(group.runs[0].spec.toml())}</pre>\n</details>'
        for group in comparison.groups
    )
    return f"""<section aria-labelledby="section-{number}">
<h2 id="section-{number}">{html.escape(comparison.title)}</h2>
{first.html()}
<h3>Figures</h3>
<div class="figures">
{figures}
</div>
<h3>Tables</h3>
{"".join(table.html() for table in others)}
<h3>Specs</h3>
{specs}
</section>"""
