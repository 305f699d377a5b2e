"""A figure as part of a page: named, described, and in the page's own colours and type."""

import io
import re
from xml.etree import ElementTree

from matplotlib.figure import Figure

from backcast.report.style import FAINT, INK, PAPER, SERIES, Drawing, styled

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_COLORS = {
    INK: "currentColor",
    FAINT: "var(--faint)",
    PAPER: "var(--paper)",
    **{color: f"var(--series-{index})" for index, color in enumerate(SERIES)},
}


def inline(drawing: Drawing, prefix: str) -> str:
    """The figure as an ``svg`` element.

    Args:
        drawing: the figure.
        prefix: what all names in it begin with, so that they are no other figure's.
    """
    root = ElementTree.fromstring(_rendered(drawing.figure))
    for parent in root.iter():
        for child in list(parent):
            # The maker's marks, and the sheet that would be white on a dark page.
            if child.tag == f"{_SVG}metadata" or child.get("id") == "patch_1":
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        _rename(element, prefix)
        if "style" in element.attrib:
            element.set("style", _restyled(element.get("style", "")))
    box = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib.update(
        {
            "viewBox": box,
            "role": "img",
            "aria-labelledby": f"{prefix}-title {prefix}-description",
        }
    )
    title, description = ElementTree.Element("title"), ElementTree.Element("desc")
    title.set("id", f"{prefix}-title")
    title.text = drawing.caption
    description.set("id", f"{prefix}-description")
    description.text = drawing.description
    root[:0] = [title, description]
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _rendered(figure: Figure) -> str:
    file = io.StringIO()
    with styled():
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return file.getvalue()


def _rename(element: ElementTree.Element, prefix: str) -> None:
    """Names, and what refers to them."""
    link = element.attrib.pop(f"{_LINK}href", None)
    if link is not None:
        inner = link.startswith("#")
        element.set("href", f"#{prefix}-{link[1:]}" if inner else link)
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.set("id", f"{prefix}-{value}")
        else:
            element.set(name, value.replace("url(#", f"url(#{prefix}-"))


def _restyled(style: str) -> str:
    style = re.sub(r"font-family: [^;]*;?", "", style)
    for color, name in _COLORS.items():
        style = style.replace(color, name)
    return style
