"""YAML text to plain values that remember their line.

ruamel.yaml parses and resolves; this module walks its node graph instead of letting it construct
objects, because only the graph gives a line for every value, shows duplicate keys and lets
aliases be counted before they unfold. Tags other than YAML's own scalars, lists and mappings are
refused.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from servebook.errors import ManifestError

__all__ = ["Entry", "Node", "describe", "parse_yaml"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 16
MAX_VALUES = 100_000  # after aliases are unfolded

_CORE = "tag:yaml.org,2002:"
_WAY_OUT = "correct the YAML there; docs/manifest.md shows a whole file"


@dataclass(frozen=True)
class Node:
    """A value and the line (from 1) where it stands; lists are tuples, mappings dicts."""

    value: bool | int | float | str | tuple[Node, ...] | dict[str, Entry] | None
    line: int


@dataclass(frozen=True)
class Entry:
    """One key of a mapping: the line of the key, and its value."""

    line: int
    node: Node


def describe(node: Node) -> str:
    """What stands there, in words short enough for an error message."""
    value = node.value
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" + ("..." if len(value) > 40 else "")
    if isinstance(value, tuple):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "a mapping with " + (", ".join(list(value)[:3]) or "no keys")
    return f"the number {value}"


def parse_yaml(text: bytes, path: Path) -> Node:
    """The single YAML document in ``text`` as a tree of nodes.

    Raises ManifestError with the line for text that is no YAML, duplicate or non-text keys, tags,
    documents nested too deeply and aliases that unfold to too much.
    """
    if len(text) > MAX_BYTES:
        raise ManifestError(
            path,
            f"a manifest below {MAX_BYTES >> 20} MiB",
            f"{len(text):,} bytes",
            "keep measurements in dumps and only settings in the manifest",
        )
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ManifestError(
            path,
            "UTF-8 text",
            f"byte {text[error.start]:#04x}",
            "save the file as UTF-8",
            line=line,
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ruamel warns about re-used anchors; they are legal
            root = YAML(typ="safe", pure=True).compose(decoded)
            if root is None:
                raise ManifestError(
                    path,
                    "the keys of a manifest",
                    "an empty file",
                    "write one with `servebook init`, or start from docs/manifest.md",
                )
            return _Walk(path).node(root, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        found = "an error: " + " ".join(str(error.problem or error.context).split())
        if "\\t" in found:
            found = "a tab (YAML indents with spaces only)"
        raise ManifestError(
            path, "valid YAML", found, _WAY_OUT, line=None if mark is None else mark.line + 1
        ) from None
    except RecursionError:  # far deeper than the walk allows, so ruamel itself gave up
        raise _too_deep(path, None) from None
    except YAMLError as error:
        position = getattr(error, "position", 0)  # ReaderError: a control character
        raise ManifestError(
            path,
            "valid YAML",
            "a control character",
            "remove it",
            line=decoded.count("\n", 0, position) + 1,
        ) from None


def _too_deep(path: Path, line: int | None) -> ManifestError:
    return ManifestError(
        path,
        f"at most {MAX_DEPTH} levels of nesting",
        "more",
        "a manifest needs no more than four",
        line=line,
    )


class _Walk:
    """Turns ruamel's node graph into a tree, each shared node once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: dict[int, tuple[Node, int]] = {}  # by identity: the node, its unfolded size
        self.scalars: Any = YAML(typ="safe", pure=True).constructor

    def node(self, node: Any, above: tuple[int, ...]) -> Node:
        return self.sized(node, above)[0]

    def sized(self, node: Any, above: tuple[int, ...]) -> tuple[Node, int]:
        known = self.done.get(id(node))
        if known is not None:
            return known
        line = node.start_mark.line + 1
        if id(node) in above:
            raise self.error(line, "a value", "an alias that holds itself", "write the value out")
        if len(above) >= MAX_DEPTH:
            raise _too_deep(self.path, line)
        tag = str(node.tag)
        above = (*above, id(node))
        value: Any
        size = 1
        if isinstance(node, ScalarNode):
            value = self.scalar(node, tag, line)
        elif isinstance(node, SequenceNode) and tag == _CORE + "seq":
            items = [self.sized(item, above) for item in node.value]
            value = tuple(item for item, _ in items)
            size += sum(count for _, count in items)
        elif isinstance(node, MappingNode) and tag == _CORE + "map":
            value, more = self.mapping(node, above)
            size += more
        else:
            raise self.error(line, "a plain value", f"the tag {tag}", "remove the tag")
        if size > MAX_VALUES:
            raise self.error(
                line,
                f"at most {MAX_VALUES:,} values",
                "aliases that unfold to more",
                "write out what is needed instead of nesting aliases",
            )
        self.done[id(node)] = (Node(value, line), size)
        return self.done[id(node)]

    def scalar(self, node: ScalarNode, tag: str, line: int) -> bool | int | float | str | None:
        text = str(node.value)
        kind = tag.removeprefix(_CORE)
        if kind in ("str", "timestamp"):  # times stay text: the schema parses them
            return self.text(text, line)
        if kind == "null":
            return None
        if kind in ("bool", "int", "float"):
            try:
                value: bool | int | float = getattr(self.scalars, f"construct_yaml_{kind}")(node)
            except (ValueError, KeyError, OverflowError):
                raise self.error(
                    line, f"a value of the type {kind}", repr(text[:40]), "correct the value"
                ) from None
            return value
        raise self.error(line, "a plain value", f"the tag {tag}", "remove the tag")

    def text(self, text: str, line: int) -> str:
        """``text`` with the escaped halves of a character joined, as JSON writes them."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self.error(
                line, "whole characters", "half of one (\\ud800 to \\udfff)", "write the character"
            ) from None

    def mapping(self, node: MappingNode, above: tuple[int, ...]) -> tuple[dict[str, Entry], int]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        size = 0
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            value, count = self.sized(value_node, above)
            size += count + 1
            if str(key_node.tag) == _CORE + "merge":
                parts = value.value if isinstance(value.value, tuple) else (value,)
                for part in parts:
                    if not isinstance(part.value, dict):
                        raise self.error(
                            line, "a mapping to merge", describe(part), "point << at a mapping"
                        )
                    for name, entry in part.value.items():
                        merged.setdefault(name, entry)
                continue
            name = self.key(key_node, line)
            if name in own:
                raise self.error(
                    line,
                    f"the key `{name}` once",
                    f"it again (first at line {own[name].line})",
                    "remove one of them",
                )
            own[name] = Entry(line, value)
        return {**own, **{k: v for k, v in merged.items() if k not in own}}, size

    def key(self, node: Any, line: int) -> str:
        if not isinstance(node, ScalarNode):
            raise self.error(line, "a key that is text", "a list or mapping", "use a plain word")
        if str(node.tag) not in (_CORE + "str", _CORE + "int", _CORE + "timestamp"):
            raise self.error(line, "a key that is text", repr(str(node.value)), "put it in quotes")
        return self.text(str(node.value), line)

    def error(self, line: int, expected: str, found: str, way_out: str) -> ManifestError:
        return ManifestError(self.path, expected, found, way_out, line=line)
