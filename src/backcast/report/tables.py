"""A table, as CSV with all digits, as LaTeX, as Markdown and as HTML."""

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from backcast.experiments import Spread

Cell = str | int | float | Spread | None


@final
@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: what it is.
        decimals: how many are shown of its numbers; None for words.
    """

    head: str
    decimals: int | None = None


@final
@dataclass(frozen=True)
class Table:
    """A table: each row begins with what it is about.

    Attributes:
        name: for files.
        title: what it is called.
        caption: what it shows.
        columns: its columns.
        rows: its rows.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def csv(self) -> str:
        """All digits; a spread becomes its mean, deviation, extremes and number of seeds."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        spreads = [any(isinstance(row[i], Spread) for row in self.rows) for i in _range(self)]
        heads = zip(self.columns, spreads, strict=True)
        writer.writerow([name for column, wide in heads for name in _csv_heads(column.head, wide)])
        for row in self.rows:
            cells = zip(row, spreads, strict=True)
            writer.writerow([value for cell, wide in cells for value in _csv_cells(cell, wide)])
        return file.getvalue()

    def latex(self) -> str:
        """A ``tabular`` with the rules of booktabs, to be put into a table of one's own."""
        kinds = "".join("l" if column.decimals is None else "r" for column in self.columns)
        lines = [
            f"% {self.title}. {self.caption}".replace("\n", " "),
            r"% \usepackage{booktabs}",
            rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}",
            r"\toprule",
            " & ".join(latex_text(column.head) for column in self.columns) + r" \\",
            r"\midrule",
            *(
                " & ".join(
                    _latex(cell, column) for cell, column in zip(row, self.columns, strict=True)
                )
                + r" \\"
                for row in self.rows
            ),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """A table between pipes, as GitHub has it."""
        rules = ["---" if column.decimals is None else "---:" for column in self.columns]
        heads = [column.head for column in self.columns]
        rows = [map(shown, row, self.columns) for row in self.rows]
        cells = [[_between_pipes(text) for text in line] for line in (heads, *rows)]
        return "".join(f"| {' | '.join(line)} |\n" for line in [cells[0], rules, *cells[1:]])

    def html(self) -> str:
        """A table that scrolls within itself where it is too wide."""
        heads = "".join(
            f'<th scope="col"{_number(column)}>{html.escape(column.head)}</th>'
            for column in self.columns
        )
        rows = "\n".join(f"<tr>{self._html_row(row)}</tr>" for row in self.rows)
        title, caption = html.escape(self.title), html.escape(self.caption)
        return (
            f'<div class="scroll" role="group" aria-label="{title}" tabindex="0">\n<table>\n'
            f"<caption><strong>{title}.</strong> {caption}</caption>\n"
            f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
        )

    def _html_row(self, row: Sequence[Cell]) -> str:
        first, *others = (
            (html.escape(shown(cell, column)), _number(column))
            for cell, column in zip(row, self.columns, strict=True)
        )
        return f'<th scope="row"{first[1]}>{first[0]}</th>' + "".join(
            f"<td{kind}>{text}</td>" for text, kind in others
        )


def shown(cell: Cell, column: Column) -> str:
    """A cell for people: a mean with its standard deviation, or a dash where nothing is known."""
    if cell is None:
        return "-"
    if isinstance(cell, Spread):
        mean = f"{cell.mean:.{column.decimals}f}"
        return mean if cell.deviation is None else f"{mean} ± {cell.deviation:.{column.decimals}f}"
    if isinstance(cell, str) or column.decimals is None:
        return str(cell)
    return f"{cell:.{column.decimals}f}"


def latex_text(text: str) -> str:
    """Text in which nothing is a command."""
    return "".join(_LATEX.get(character, character) for character in text)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\n": " ",
}


def _between_pipes(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _latex(cell: Cell, column: Column) -> str:
    text = shown(cell, column)
    if cell is None:
        return "--"
    if isinstance(cell, str):
        return latex_text(text)
    return "$" + text.replace("±", r"\pm") + "$"


def _csv_heads(head: str, wide: bool) -> list[str]:
    parts = ("", " deviation", " low", " high", " seeds") if wide else ("",)
    return [head + part for part in parts]


def _csv_cells(cell: Cell, wide: bool) -> list[str | int | float | None]:
    if isinstance(cell, Spread):
        return [cell.mean, cell.deviation, cell.low, cell.high, cell.count]
    return [cell, *([None] * 4 if wide else [])]


def _range(table: Table) -> range:
    return range(len(table.columns))


def _number(column: Column) -> str:
    return "" if column.decimals is None else ' class="number"'
