"""A static SVG made small, safe and independent of its neighbours on the page.

vl-convert writes for standalone viewing: every group carries roles and classes, every text its
font, and clip paths have the same ids in each chart, so that on one page the second chart would
be clipped by the first. Here ids get the figure's prefix, coordinates lose digits below a tenth
of a pixel, and only drawing elements survive.

Own code: scour and svgo minify further but do not prefix ids across documents.
"""

from __future__ import annotations

import re
from itertools import pairwise

from lxml import etree

__all__ = ["compact", "headed"]

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {
    "svg", "g", "path", "line", "rect", "circle", "text", "tspan", "image", "defs", "clipPath",
    "linearGradient", "radialGradient", "stop",
}  # fmt: skip
DROPPED = {"class", "role", "pointer-events", "cursor", "version", "stroke-miterlimit"}
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|-?\d+e-?\d+")
URL = re.compile(r"url\(#([^)]+)\)")
NUMERIC = {"transform", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy", "r"}
POLYLINE = re.compile(r"(M-?[\d.]+,-?[\d.]+(L-?[\d.]+,-?[\d.]+)*Z?)+")
EMPTY_PATH = re.compile(r"^(M0,0h0v0h0Z)?$")


def _short(match: re.Match[str]) -> str:
    text = f"{float(match.group()):.1f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _tenths(value: int) -> str:
    sign, size = ("-" if value < 0 else ""), abs(value)
    text = f"{size // 10}" if size % 10 == 0 else f"{size // 10 or ''}.{size % 10}"
    return sign + text


def _subpath(points: list[tuple[int, int]]) -> str:
    """One open polyline in relative steps; points that draw nothing are left out."""
    steps: list[tuple[int, int]] = []
    for (x0, y0), (x1, y1) in pairwise(points):
        dx, dy = x1 - x0, y1 - y0
        if (dx, dy) == (0, 0):
            continue
        last = steps[-1] if steps else (0, 0)
        if (dy == 0 == last[1] and dx * last[0] > 0) or (dx == 0 == last[0] and dy * last[1] > 0):
            steps[-1] = (last[0] + dx, last[1] + dy)
        else:
            steps.append((dx, dy))
    out = [f"M{_tenths(points[0][0])},{_tenths(points[0][1])}"]
    for dx, dy in steps:
        if dy == 0:
            out.append(f"h{_tenths(dx)}")
        elif dx == 0:
            out.append(f"v{_tenths(dy)}")
        else:
            out.append(f"l{_tenths(dx)}{'' if dy < 0 else ','}{_tenths(dy)}")
    return "".join(out) if steps else f"{out[0]}h0"


def _path(d: str) -> str:
    """The path rounded to tenths of a pixel; polylines, most of all steps, also in short form."""
    if not POLYLINE.fullmatch(d):
        return NUMBER.sub(_short, d)
    parts = []
    for part in d.removesuffix("Z").split("M")[1:]:
        closed = part.endswith("Z")
        pairs = [pair.split(",") for pair in part.removesuffix("Z").split("L")]
        points = [(round(float(x) * 10), round(float(y) * 10)) for x, y in pairs]
        parts.append(_subpath(points) + ("Z" if closed else ""))
    return "".join(parts) + ("Z" if d.endswith("Z") else "")


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
        elif local == "d":
            node.set(name, _path(value))
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


PLACE = re.compile(r"translate\((-?[\d.]+),\s*(-?[\d.]+)\)")


def headed(chart: str, heading: str) -> str:
    """A chart as vl-convert draws it, unchanged, below the title of another drawing of its.

    Both are SVG texts; so is what comes out. It is as wide as the wider of the two.
    """
    parser = etree.XMLParser(resolve_entities=False, huge_tree=True)
    root, other = etree.fromstring(chart, parser), etree.fromstring(heading, parser)
    above = next(g for g in other.iter(f"{SVG}g") if "role-title" in g.get("class", "").split())
    place = PLACE.search(next(other.iterchildren(f"{SVG}g")).get("transform", ""))
    assert place is not None, heading[:300]
    x, y = float(place[1]), float(place[2])
    for node in root.iterchildren(f"{SVG}g"):
        node.set("transform", f"translate(0,{y:g}) {node.get('transform', '')}".strip())
    moved = etree.SubElement(root, f"{SVG}g", fill="none", transform=f"translate({x:g},{y:g})")
    moved.set("stroke-miterlimit", "10")
    moved.append(above)
    width = max(float(root.get("width")), float(other.get("width")))
    height = float(root.get("height")) + y
    for node in (root, *root.iterchildren(f"{SVG}rect")):
        node.set("width", f"{width:g}")
        node.set("height", f"{height:g}")
    root.set("viewBox", f"0 0 {width:g} {height:g}")
    text: str = etree.tostring(root, encoding="unicode")
    return text
