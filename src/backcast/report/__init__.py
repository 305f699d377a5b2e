"""What came of runs, for people: figures, tables, and one page that needs no network.

comparison.py  which groups of runs may be compared: those of the same tasks
style.py       how figures look
curves.py      accuracy as tasks are learned, and eigenvalues
matrices.py    every model on every task
dots.py        each task's own models
tables.py      a table, as CSV, LaTeX and HTML
contents.py    which figures and tables there are of a comparison
svg.py         a figure as part of a page
page.py        the page
files.py       files that are there whole or not at all
paper/         the paper's tables and figures
write.py       write_report: all of it, in a folder
"""

from backcast.report.comparison import Comparison, comparisons
from backcast.report.write import write_report

__all__ = ["Comparison", "comparisons", "write_report"]
