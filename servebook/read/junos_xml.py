"""Junos' two notations of one tree as plain objects: a name -> its nodes or texts, in order.

XML is parsed without entities, document types, or a network; namespaces are dropped, because they
carry the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lxml import etree

__all__ = ["Node", "from_json", "from_xml", "nodes", "part_of", "text_of"]

Node = Mapping[str, list[Any]]
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_ROOT = re.compile(r"<([\w:.-]{1,64})")
_DEPTH = 64


def from_xml(text: str) -> Node:
    """The tree of one document, with what follows it cut off.

    Raises ValueError, in words, for XML that is broken, nested too deeply or has a document type.
    """
    text = _DECLARATION.sub("", text).lstrip()
    if name := _ROOT.match(text):
        end = text.rfind(f"</{name[1]}>")
        text = text if end < 0 else text[: end + len(name[1]) + 3]
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("XML with a document type or entities, which no switch writes")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False
    )
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"no valid XML (line {error.lineno} of the document)") from None
    except ValueError:
        raise ValueError("no valid XML") from None
    return {_local(root): [_element(root, 0)]}


def from_json(value: Any) -> Node:
    """The tree of a JSON document, whose leaves are ``[{"data": "text"}]``."""
    found = _plain(value, 0)
    return found if isinstance(found, dict) else {}


def nodes(node: Any, name: str, depth: int = 0) -> Iterator[Node]:
    """The nodes of that name at or below ``node``, not inside one another."""
    if not isinstance(node, Mapping) or depth > _DEPTH:
        return
    for key, children in node.items():
        for child in children:
            if key == name:
                if isinstance(child, Mapping):
                    yield child
            else:
                yield from nodes(child, name, depth + 1)


def part_of(node: Node, name: str) -> Node:
    """The first node of that name directly below ``node``; an empty one where there is none."""
    return next((child for child in node.get(name, ()) if isinstance(child, Mapping)), {})


def text_of(node: Node, name: str) -> str | None:
    """The first text of that name in the node itself, stripped; None where there is none."""
    for child in node.get(name, ()):
        if isinstance(child, str):
            return child.strip()
    return None


def _local(element: Any) -> str:
    tag = element.tag
    return str(tag).rpartition("}")[2] if isinstance(tag, str) else ""


def _element(element: Any, depth: int) -> Any:
    children = [child for child in element if _local(child)]
    if not children or depth > _DEPTH:
        return element.text or ""
    out: dict[str, list[Any]] = {}
    for child in children:
        out.setdefault(_local(child), []).append(_element(child, depth + 1))
    return out


def _plain(value: Any, depth: int) -> Any:
    if depth > 2 * _DEPTH:
        return ""
    if isinstance(value, dict):
        if "data" in value and not isinstance(value["data"], dict | list):
            return str(value["data"])
        return {
            str(key): [_plain(child, depth + 1) for child in _listed(children)]
            for key, children in value.items()
            if key != "attributes"
        }
    return str(value)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
