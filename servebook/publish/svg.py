"""A static SVG made small, safe and independent of its neighbours on the page.

vl-convert writes for standalone viewing: every group carries roles and classes, every text its
font, and clip paths have the same ids in each chart, so that on one page the second chart would
be clipped by the first. Here ids get the figure's prefix, coordinates lose digits below a tenth
of a pixel, and only drawing elements survive.

Own code: scour and svgo minify further but do not prefix ids across documents.
"""

from __future__ import annotations

import re

from lxml import etree

__all__ = ["compact"]

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {
    "svg", "g", "path", "line", "rect", "circle", "text", "tspan", "image", "defs", "clipPath",
    "linearGradient", "radialGradient", "stop",
}  # fmt: skip
DROPPED = {"class", "role", "pointer-events", "cursor", "version", "stroke-miterlimit"}
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|-?\d+e-?\d+")
URL = re.compile(r"url\(#([^)]+)\)")
NUMERIC = {"d", "transform", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy", "r"}
EMPTY_PATH = re.compile(r"^(M0,0h0v0h0Z)?$")


def _short(match: re.Match[str]) -> str:
    text = f"{float(match.group()):.1f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _invisible(node: etree._Element) -> bool:
    tag = etree.QName(node).localname
    if tag not in TAGS or node.get("display") == "none":
        return True
    return tag == "path" and bool(EMPTY_PATH.match(node.get("d", "")))


def _clean(node: etree._Element, prefix: str) -> None:
    for name, value in list(node.attrib.items()):
        local = etree.QName(name).localname
        if (
            local in DROPPED
            or local.startswith(("aria-", "on"))
            or (local == "opacity" and value == "1")
            or value == "translate(0,0)"
            or (local == "href" and not value.startswith("data:image/"))
        ):
            del node.attrib[name]
        elif local == "id":
            node.set(name, prefix + value)
        elif "url(" in value:
            node.set(name, URL.sub(lambda match: f"url(#{prefix}{match.group(1)})", value))
        elif local in NUMERIC:
            node.set(name, NUMBER.sub(_short, value))


def _hoist_font(root: etree._Element) -> None:
    fonts = {node.get("font-family") for node in root.iter(f"{SVG}text")}
    if len(fonts) == 1 and (font := fonts.pop()) is not None:
        for node in root.iter(f"{SVG}text"):
            del node.attrib["font-family"]
        root.set("font-family", font)


def _flatten(root: etree._Element) -> None:
    for group in list(root.iter(f"{SVG}g")):
        parent = group.getparent()
        if parent is None or (group.attrib and len(group)):
            continue
        place = parent.index(group)
        for offset, child in enumerate(list(group)):
            parent.insert(place + offset, child)
        parent.remove(group)


def compact(svg: str, prefix: str) -> str:
    """The drawing for embedding into HTML, transparent, with ``prefix`` before each id."""
    root = etree.fromstring(svg, etree.XMLParser(resolve_entities=False, huge_tree=True))
    for node in list(root.iter()):
        if node is root or not isinstance(node.tag, str):
            continue
        parent = node.getparent()
        if parent is not None and _invisible(node):
            parent.remove(node)
    first = root[0] if len(root) else None
    if first is not None and first.tag == f"{SVG}rect" and first.get("width") == root.get("width"):
        root.remove(first)
    for node in root.iter(etree.Element):
        _clean(node, prefix)
    _hoist_font(root)
    _flatten(root)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    etree.cleanup_namespaces(root)
    text: str = etree.tostring(root, encoding="unicode")
    return text
