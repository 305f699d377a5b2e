"""The paper's tables and figures, with our numbers beside the paper's.

artefact.py   Artefact: the runs that a table or figure is made of, and how they are shown
write.py      an artefact in a folder, with all numbers and their origin

To add one: a file with an `Artefact`, a line in `ARTEFACTS`, and its name in the command
``backcast paper``.
"""

from collections.abc import Mapping
from types import MappingProxyType

from backcast.report.paper.ablation import ABLATION
from backcast.report.paper.artefact import Artefact
from backcast.report.paper.between import BETWEEN
from backcast.report.paper.fig2 import FIG2, FIG14
from backcast.report.paper.fig3 import FIG3
from backcast.report.paper.fig5 import FIG5
from backcast.report.paper.fig8 import FIG8
from backcast.report.paper.over import FIG10, FIG11
from backcast.report.paper.patches import PATCHES
from backcast.report.paper.table1 import TABLE1
from backcast.report.paper.twenty import TWENTY
from backcast.report.paper.write import unfinished, write

ARTEFACTS: Mapping[str, Artefact] = MappingProxyType(
    {
        "table1": TABLE1,
        "fig2": FIG2,
        "fig3": FIG3,
        "fig5": FIG5,
        "fig8": FIG8,
        "fig10": FIG10,
        "fig11": FIG11,
        "fig14": FIG14,
        "between": BETWEEN,
        "patches": PATCHES,
        "ablation": ABLATION,
        "twenty": TWENTY,
    }
)
"""All of them, by the names that ``backcast paper`` knows them by."""

__all__ = ["ARTEFACTS", "Artefact", "unfinished", "write"]
