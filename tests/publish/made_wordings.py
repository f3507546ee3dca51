"""Every English wording that a module makes, read from its source: what ``told`` must know.

A string, an f-string, their sum, or a choice between some is one expression; it is taken apart
into all wordings that it can be. A name that stands for such an expression is looked up. What is
sought in dumps and names of columns are no wordings: strings that are compared, keys, arguments of
``startswith`` and the like.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Wording", "is_number", "is_piece", "wordings"]

Part = str | ast.expr  # text, or the expression of a field
Parts = tuple[Part, ...]

_DEEPEST = 6  # names that stand for names
_NO_WORDING = {
    "col", "compile", "count", "drop", "endswith", "find", "findall", "finditer", "fullmatch",
    "get", "getattr", "groupby", "hasattr", "index", "lstrip", "match", "namedtuple", "partition",
    "pop", "removeprefix", "removesuffix", "rename", "replace", "rpartition", "rsplit", "rstrip",
    "search", "set_index", "sort_values", "split", "startswith", "strftime", "strip", "strptime",
    "sub",
}  # fmt: skip
#: Two words of a sentence beside each other, or one beside a field.
_PROSE = re.compile(
    r"(?<![\w.\-/<])[A-Za-z]?[a-z']+[,:;)]? \(?[a-z']{2,}(?![\w\-]*[_=(])"
    r"|[a-z]{2,}[,:;)]? \0|\0[,:;)%]? [A-Za-z]{2,}"
)
#: Calls whose arguments are parts of a reason, also where these are one word.
_REASONS = re.compile(
    r"(DumpError|BadRecordError|NotComputableError|aside\w*|unusable|_refuse|_stated)[#.]"
)


@dataclass(frozen=True)
class Wording:
    """A wording with its place; ``context`` is the call and argument, or the kind of node."""

    module: str  # below the package: "read/aiperf.py"
    function: str
    line: int
    parts: Parts
    context: str
    node: int  # the expression's id, to tell it from others

    @property
    def fields(self) -> tuple[ast.expr, ...]:
        return tuple(part for part in self.parts if not isinstance(part, str))

    @property
    def plain(self) -> str:
        """The text with a NUL for each field."""
        return "".join(part if isinstance(part, str) else "\0" for part in self.parts)

    @property
    def is_prose(self) -> bool:
        """It reads like a part of a sentence, or stands where a reason stands."""
        if "\\" in self.plain or not re.search(r"[a-z]{2}", self.plain):
            return False
        return bool(_PROSE.search(self.plain) or _REASONS.match(self.context))

    def filled(self, values: Sequence[str]) -> str:
        """The wording with a value for each field."""
        left = iter(values)
        return "".join(part if isinstance(part, str) else next(left) for part in self.parts)


def is_number(field: ast.expr) -> bool:
    """The field holds digits whatever happens: by its format, a length, or its name."""
    if isinstance(field, ast.FormattedValue):
        spec = field.format_spec
        if isinstance(spec, ast.JoinedStr) and isinstance(spec.values[-1], ast.Constant):
            written = str(spec.values[-1].value)
            if re.search("[,defgn%]$", written) and "%Y" not in written:
                return True
        field = field.value
    if isinstance(field, ast.BinOp) and not isinstance(field.op, ast.Mod):
        return not isinstance(field.op, ast.Add) or is_number(field.left)
    if isinstance(field, ast.Call) and isinstance(field.func, ast.Name):
        return field.func.id in ("len", "int", "sum")
    name = ast.unparse(field)
    return bool(
        re.fullmatch(
            r"n|of|at|concurrency|line|lineno|index|gpus|nodes|n_\w+|_?(LEAST|MIN|MAX|MOST)_\w+",
            name.rpartition(".")[2],
        )
    )


class _Scope:
    """What names stand for in a function or a module, where that is the same everywhere."""

    def __init__(self, node: ast.AST) -> None:
        self._values: dict[str, list[ast.expr | None]] = {}
        self._used: dict[str, set[int]] = {}  # where each name is read
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                self._used.setdefault(one.id, set()).add(id(one))
        self._whole = isinstance(node, ast.Module)
        inside = node.body if isinstance(node, ast.Module) else ast.walk(node)
        for one in inside:
            if isinstance(one, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                value = None if isinstance(one, ast.AugAssign) else one.value
            elif isinstance(one, ast.For | ast.comprehension):
                targets, value = [one.target], None
            elif isinstance(one, ast.arg):
                self._values.setdefault(one.arg, []).append(None)
                continue
            else:
                continue
            for target in targets:
                whole = isinstance(target, ast.Name)
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        self._values.setdefault(name.id, []).append(value if whole else None)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def is_elsewhere(self, name: str, seen: set[int]) -> bool:
        """It is read at other places than those that were seen, or may be by other modules."""
        return not self._used[name] <= seen or (self._whole and not name.startswith("_"))

    def of(self, name: str) -> list[ast.expr] | None:
        known = [value for value in self._values[name] if value is not None]
        return known if len(known) == len(self._values[name]) else None


class _Module:
    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.found: list[Wording] = []
        self._seen: set[int] = set()  # names inside of other wordings
        self._named_there: list[tuple[_Scope, str, list[ast.expr]]] = []
        self._top = _Scope(tree)
        for node in tree.body:
            named = isinstance(node, ast.Assign | ast.AnnAssign)
            target = (
                node.targets[0] if isinstance(node, ast.Assign) else node.target if named else None
            )
            self._visit(node, self._top, ast.unparse(target) if target else "", "")

    def whole(self) -> list[Wording]:
        """The wordings without those that stand in others by name, and nowhere else."""
        inside = {
            id(value)
            for scope, name, values in self._named_there
            if not scope.is_elsewhere(name, self._seen)
            for value in values
        }
        return [one for one in self.found if one.node not in inside]

    def _choices(self, node: ast.expr, scope: _Scope, depth: int = 0) -> list[Parts] | None:
        """All wordings that an expression can be; None where none of it is text here."""
        if isinstance(node, ast.Constant):
            return [_formatted(node.value)] if isinstance(node.value, str) else None
        if isinstance(node, ast.JoinedStr):
            return self._product([self._piece(one, scope, depth) for one in node.values], node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            sides = [self._choices(one, scope, depth) for one in (node.left, node.right)]
            if sides == [None, None]:
                return None
            both = zip(sides, (node.left, node.right), strict=True)
            return self._product([side or [(one,)] for side, one in both], node)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            ways = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            found = [self._choices(one, scope, depth) for one in ways]
            if not any(found) or (isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)):
                return None
            return [p for way, one in zip(found, ways, strict=True) for p in way or [(one,)]]
        if isinstance(node, ast.Name) and depth < _DEEPEST:
            return self._named(node, scope, depth)
        return None

    def _named(self, node: ast.Name, scope: _Scope, depth: int) -> list[Parts] | None:
        place = scope if node.id in scope else self._top
        values = place.of(node.id) if node.id in place else None
        if not values:
            return None
        found = [self._choices(value, place, depth + 1) for value in values]
        if None in found:
            return None
        self._seen.add(id(node))
        self._named_there.append((place, node.id, values))
        return [parts for way in found for parts in way or ()]

    def _piece(self, node: ast.expr, scope: _Scope, depth: int) -> list[Parts]:
        if not isinstance(node, ast.FormattedValue):
            return self._choices(node, scope, depth) or []
        plain = node.format_spec is None and node.conversion == -1
        return (self._choices(node.value, scope, depth + 1) if plain else None) or [(node,)]

    def _product(self, pieces: list[list[Parts]], node: ast.expr) -> list[Parts]:
        found = []
        for some in itertools.islice(itertools.product(*pieces), 65):
            parts: list[Part] = []
            for part in itertools.chain.from_iterable(some):
                if isinstance(part, str) and parts and isinstance(parts[-1], str):
                    parts[-1] += part
                elif part != "":
                    parts.append(part)
            found.append(tuple(parts))
        assert len(found) <= 64, f"{self.name}:{node.lineno}: more than 64 wordings"
        return found

    def _visit(self, node: ast.AST, scope: _Scope, function: str, context: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{function}.{node.name}".lstrip(".")
            inner = _Scope(node) if isinstance(node, ast.FunctionDef) else scope
            for one in node.body:
                self._visit(one, inner, name, "")
        elif isinstance(node, ast.Call):
            self._visit_call(node, scope, function)
        elif isinstance(node, ast.Constant | ast.JoinedStr | ast.IfExp | ast.BinOp | ast.BoolOp):
            self._take(node, scope, function, context)
        else:
            kind = context if isinstance(node, ast.Tuple | ast.List) else type(node).__name__
            for one in _children(node):
                self._visit(one, scope, function, kind)

    def _visit_call(self, node: ast.Call, scope: _Scope, function: str) -> None:
        name = ast.unparse(node.func).rpartition(".")[2]
        self._visit(node.func, scope, function, "")
        for i, one in enumerate(node.args):
            if name not in _NO_WORDING or not isinstance(one, ast.Constant | ast.Tuple):
                self._visit(one, scope, function, f"{name}#{i}")
        for word in node.keywords:
            self._visit(word.value, scope, function, f"{name}.{word.arg}")

    def _take(self, node: ast.expr, scope: _Scope, function: str, context: str) -> None:
        found = self._choices(node, scope)
        if found is None:
            for one in _children(node):
                self._visit(one, scope, function, context)
            return
        self.found += [
            Wording(self.name, function, node.lineno, parts, context, id(node))
            for parts in found
            if any(isinstance(part, str) and part for part in parts)
        ]
        fields = {id(part): part for parts in found for part in parts if not isinstance(part, str)}
        for one in fields.values():
            inner = one.value if isinstance(one, ast.FormattedValue) else one
            self._visit(inner, scope, function, "field")


def _formatted(text: str) -> Parts:
    """A text that ``str.format`` is to fill in is one with fields."""
    parts = re.split(r"\{([a-z_]+)(?::[,.\dgf]+)?\}", text)
    return tuple(ast.Name(one) if i % 2 else one for i, one in enumerate(parts) if one)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in which a wording can stand."""
    match node:
        case ast.Expr(value=ast.Constant()):  # a docstring
            return
        case ast.Compare(left=left, comparators=others):
            yield from (
                one
                for one in (left, *others)
                if not isinstance(one, ast.Constant | ast.Tuple | ast.Set | ast.List)
            )
        case ast.Subscript(value=value, slice=index):
            yield from (value, *(() if isinstance(index, ast.Constant) else (index,)))
        case ast.AnnAssign(value=value):
            yield from () if value is None else (value,)
        case ast.Dict(keys=keys, values=values):
            yield from (one for one in keys if one and not isinstance(one, ast.Constant))
            yield from values
        case ast.arguments(defaults=defaults, kw_defaults=others):
            yield from filter(None, (*defaults, *others))
        case _:
            yield from ast.iter_child_nodes(node)


def wordings(root: Path, *folders: str) -> list[Wording]:
    """All of the modules in the package's ``folders``, in order."""
    return [
        one
        for folder in folders
        for path in _modules(root / "servebook" / folder)
        for one in _Module(
            path.relative_to(root / "servebook").as_posix(),
            ast.parse(path.read_text(encoding="utf-8")),
        ).whole()
    ]


def _modules(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def is_piece(one: Wording) -> bool:
    """The text cannot stand by itself: it begins or ends as no wording does."""
    first, last = one.parts[0], one.parts[-1]
    return (isinstance(first, str) and first[0] in " ,;:") or (
        isinstance(last, str) and last[-1] in " ,;:("
    )
