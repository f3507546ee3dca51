"""The shape of the code: imports point one way, in no circle, and a module stays readable.

Own code: import-linter does the first part, but is one more tool with one more configuration for
forty lines of the standard library's ast.
"""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

LAYERS = ("read", "measure", "explain", "publish")
LONGEST = 400

# In pieces, so that this file does not hold what it looks for.
MACHINE = re.compile(
    r"(?<![\w.~-])/" + r"(?:work|tmp|home|root|Users|opt|mnt)/[\w.-]"
    r"|[A-Z]:" + r"\\Users\\"
    r"|(?:pypi|files\.python" + r"hosted|test\.pypi)\.org"
    r"|\b(?:artif" + r"actory|nex" + r"us|dev" + r"pi)\b"
)


def layer(module: str) -> int:
    """0 for the ground that all stand on, then read to publish, then the command line."""
    parts = module.split(".")
    if len(parts) > 1 and parts[1] in LAYERS:
        return LAYERS.index(parts[1]) + 1
    return len(LAYERS) + 1 if parts[1:2] in (["cli"], ["__main__"]) else 0


def modules(root: Path) -> dict[str, ast.Module]:
    found = {}
    for path in sorted((root / "servebook").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(nodes: Iterator[ast.AST], known: set[str]) -> set[str]:
    """The modules of the package that these nodes import, by their full names."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports inside servebook name the whole path"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found |= {whole if whole in known else node.module or ""} & known
    return found


def at_import_time(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes that run when the module is imported: not those inside functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if not (is_function or is_typing):
                waiting.append(child)


def upward(trees: dict[str, ast.Module]) -> list[str]:
    return [
        f"{name} imports {other}"
        for name, tree in trees.items()
        for other in sorted(imports(ast.walk(tree), set(trees)))
        if layer(other) > layer(name)
    ]


def circle(trees: dict[str, ast.Module]) -> list[str]:
    graph = {
        name: imports(at_import_time(tree), set(trees)) - {name} for name, tree in trees.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def trees(project_root: Path) -> dict[str, ast.Module]:
    found = modules(project_root)
    assert {"servebook.cli", "servebook.read.source", "servebook.publish.output"} <= set(found)
    return found


def test_imports_point_one_way(trees: dict[str, ast.Module]) -> None:
    assert upward(trees) == []


def test_no_imports_go_in_a_circle(trees: dict[str, ast.Module]) -> None:
    assert circle(trees) == []


def test_the_checks_see_a_wrong_import_and_a_circle() -> None:
    sources = {
        "servebook.read.one": "def f():\n    from servebook.measure import two",
        "servebook.measure": "",
        "servebook.measure.two": "from servebook.measure.three import x",
        "servebook.measure.three": "import servebook.measure.two",
        "servebook.measure.lazy": "def f():\n    import servebook.measure.lazy",
    }
    trees = {name: ast.parse(source) for name, source in sources.items()}
    assert upward(trees) == ["servebook.read.one imports servebook.measure.two"]
    assert set(circle(trees)) == {"servebook.measure.two", "servebook.measure.three"}
    del trees["servebook.measure.three"]
    assert circle(trees) == []


@pytest.mark.parametrize("folder", ["servebook", "tests", "benchmarks", "notebooks"])
def test_no_module_is_long(project_root: Path, folder: str) -> None:
    lengths = {
        path.relative_to(project_root).as_posix(): path.read_bytes().count(b"\n")
        for path in (project_root / folder).rglob("*.py")
    }
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST}


def tracked(root: Path) -> list[Path]:
    """The repository's files; a copy without git has none to list, and skips."""
    if not (root / ".git").exists():
        pytest.skip("not a git clone: there is no list of tracked files")
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    return [root / name for name in listed.decode().split("\0") if name]


def test_no_tracked_file_knows_a_machine_or_a_registry(project_root: Path) -> None:
    found = []
    for path in tracked(project_root):
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        hits = [match[0] for match in MACHINE.finditer(text)]
        if hits:
            found.append(f"{path.relative_to(project_root)}: {hits[:3]}")
    assert not found


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("see /" + "home/anna/x", True),
        ("C:" + "\\Users\\anna", True),
        ("https://pypi" + ".org/simple", True),
        ("~/home/x and data/tmp/x and </root>", False),
        ("the /root element, /tmp", False),
    ],
)
def test_what_counts_as_a_machine_path(text: str, is_found: bool) -> None:
    assert bool(MACHINE.search(text)) is is_found
