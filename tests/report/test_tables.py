"""Tables hold the numbers they are given, in every form."""

import csv
import io
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from backcast.experiments import Spread
from backcast.report.tables import Column, Table, latex_text, shown

COLUMNS = (Column("runs"), Column("seeds", 0), Column("accuracy", 3))
SPREAD = Spread.of([0.5, 0.75, 1.0])


def table(*rows):
    return Table("numbers", "Numbers", "All of them.", COLUMNS, rows)


def test_csv_holds_all_digits_of_a_spread():
    text = table(("a, b", 3, SPREAD), ("c", 1, None)).csv()
    first, second = csv.DictReader(io.StringIO(text))
    assert first["runs"] == "a, b"
    assert [first[f"accuracy{part}"] for part in ("", " deviation", " low", " high", " seeds")] == [
        "0.75",
        "0.25",
        "0.5",
        "1.0",
        "3",
    ]
    assert second["accuracy"] == second["accuracy deviation"] == ""


def test_latex_is_a_table_with_the_rules_of_booktabs():
    lines = table(("50 % of a_b", 3, SPREAD), ("c", 1, None)).latex().splitlines()
    assert lines[2:] == [
        r"\begin{tabular}{@{}lrr@{}}",
        r"\toprule",
        r"runs & seeds & accuracy \\",
        r"\midrule",
        r"50 \% of a\_b & $3$ & $0.750 \pm 0.250$ \\",
        r"c & $1$ & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_nothing_in_latex_text_is_a_command():
    assert latex_text("\\a{b}~^&%$#_") == (
        r"\textbackslash{}a\{b\}\textasciitilde{}\textasciicircum{}\&\%\$\#\_"
    )


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"])))
def test_html_says_any_text_as_it_is(text):
    root = ElementTree.fromstring(table((text, 3, SPREAD)).html())
    cells = [cell for row in root.iter("tbody") for cell in row.iter() if cell.tag in ("th", "td")]
    assert [cell.text or "" for cell in cells] == [text, "3", "0.750 ± 0.250"]
    assert cells[0].get("scope") == "row"
    assert [head.get("scope") for head in root.find(".//thead").iter("th")] == ["col"] * 3


def test_one_seed_has_no_deviation():
    assert shown(Spread.of([0.5]), COLUMNS[2]) == "0.500"
    assert shown(None, COLUMNS[2]) == "-"
