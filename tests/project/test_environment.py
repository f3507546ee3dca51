"""pyproject.toml, requirements.lock and environment.yml say the same, and the lock is clean."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

# Where conda-forge's name is not PyPI's (after PEP 503 normalisation).
CONDA_NAMES = {
    "jupyter-client": "jupyter_client",
    "jupyter-core": "jupyter_core",
    "prometheus-client": "prometheus_client",
    "ruamel-yaml": "ruamel.yaml",
}
PYTHONS = ("3.11", "3.12", "3.13")
SWITCHED_OFF = ("lark", "rfc3987-syntax")


class Pin(NamedTuple):
    version: str
    marker: str
    hashes: int


def read_lock(text: str) -> dict[str, list[Pin]]:
    """Pins by name; a name has several where the version depends on Python's."""
    pins: dict[str, list[Pin]] = {}
    for block in re.split(r"\n(?=[a-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.M)):
        head, *rest = block.strip().split(" \\\n")
        found = re.fullmatch(r"([a-z0-9-]+)==([^ ;]+)(?: ; (.+))?", head)
        assert found, f"not a pin: {head!r}"
        assert all(re.fullmatch(r"\s+--hash=sha256:[0-9a-f]{64}", line) for line in rest), head
        pins.setdefault(found[1], []).append(Pin(found[2], found[3] or "", len(rest)))
    return pins


def pinned(pins: list[Pin], python: str) -> str | None:
    """The version that pip picks on Linux with this Python."""
    environment = {
        "os_name": "posix",
        "python_full_version": f"{python}.9",
        "python_version": python,
        "sys_platform": "linux",
    }
    fitting = [p.version for p in pins if not p.marker or Marker(p.marker).evaluate(environment)]
    assert len(fitting) <= 1
    return fitting[0] if fitting else None


@pytest.fixture(scope="module")
def lock(project_root: Path) -> dict[str, list[Pin]]:
    return read_lock((project_root / "requirements.lock").read_text())


@pytest.fixture(scope="module")
def project(project_root: Path) -> dict[str, Any]:
    with (project_root / "pyproject.toml").open("rb") as file:
        table: dict[str, Any] = tomllib.load(file)["project"]
    return table


@pytest.fixture(scope="module")
def declared(project: dict[str, Any]) -> dict[str, Requirement]:
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for group in extras.values() for text in group)]
    return {canonicalize_name(r.name): r for r in map(Requirement, texts)}


def test_each_dependency_is_locked_within_its_range(
    declared: dict[str, Requirement], lock: dict[str, list[Pin]]
) -> None:
    assert len(declared) > 20
    for name, requirement in declared.items():
        for python in PYTHONS:
            version = pinned(lock.get(name, []), python)
            assert version, f"{name} is not in requirements.lock for Python {python}; make lock"
            assert requirement.specifier.contains(version), f"{name} {version}, not {requirement}"


def test_conda_gets_the_locked_versions(
    project_root: Path, declared: dict[str, Requirement], lock: dict[str, list[Pin]]
) -> None:
    listed = YAML(typ="safe").load(project_root / "environment.yml")["dependencies"]
    by_pip = listed.pop()["pip"]
    assert listed == [entry for entry in listed if isinstance(entry, str)]
    versions = dict(entry.split("==") for entry in [*listed, *by_pip] if "==" in entry)
    others = dict(entry.split("=") for entry in listed if "==" not in entry and "=" in entry)
    assert list(others) == ["python"]
    assert others["python"] in PYTHONS
    expected = {CONDA_NAMES.get(n, n): pinned(lock[n], others["python"]) for n in declared}
    assert versions == expected


def test_every_entry_of_the_lock_has_hashes(lock: dict[str, list[Pin]]) -> None:
    assert len(lock) > 100
    assert not [name for name, pins in lock.items() if not all(pin.hashes for pin in pins)]


def test_the_lock_holds_no_address(project_root: Path) -> None:
    text = (project_root / "requirements.lock").read_text()
    assert not re.findall(r"\S*(?:://|--find-links|--(?:extra-)?index-url|^-e )\S*", text)


def test_the_slow_parser_is_not_in_the_lock(lock: dict[str, list[Pin]]) -> None:
    assert not set(SWITCHED_OFF) & set(lock)


def test_the_lock_is_complete_but_for_the_slow_parser(lock: dict[str, list[Pin]]) -> None:
    """Installed packages ask for nothing that the lock does not hold (so --no-deps is safe)."""
    missing = set()
    for name, pins in lock.items():
        if pinned(pins, f"{sys.version_info.major}.{sys.version_info.minor}") is None:
            continue
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted = canonicalize_name(requirement.name)
                missing |= {wanted} - set(lock)
    assert missing <= set(SWITCHED_OFF), missing


def test_every_import_of_the_package_is_declared(
    project_root: Path, project: dict[str, Any]
) -> None:
    """A package that only comes along with another one may leave with its next version.

    One of an extra may be imported inside a function, by what asks for it there.
    """
    runtime = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    cluster = project["optional-dependencies"]["cluster"]
    optional = {canonicalize_name(Requirement(text).name) for text in cluster}
    distributions = importlib.metadata.packages_distributions()
    undeclared = set()
    for path in sorted((project_root / "servebook").rglob("*.py")):
        tree = ast.parse(path.read_text())
        inside = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            known = runtime | optional if id(node) in inside else runtime
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            for top in {name.split(".")[0] for name in names}:
                if top in sys.stdlib_module_names or top == "servebook":
                    continue
                if not known & {canonicalize_name(d) for d in distributions.get(top, ())}:
                    undeclared.add(f"{path.name}: {top}")
    assert not undeclared


@pytest.fixture
def from_the_lock() -> None:
    """Skip where conda made the environment: its jsonschema may bring the parser along."""
    if os.environ.get("CONDA_PREFIX") and not Path(sys.prefix, "installed").is_file():
        pytest.skip("a conda environment; the slow parser is kept out of .venv only")


@pytest.mark.usefixtures("from_the_lock")
@pytest.mark.parametrize("module", ["lark", "rfc3987_syntax"])
def test_the_slow_parser_is_not_installed(module: str) -> None:
    assert importlib.util.find_spec(module) is None


@pytest.mark.usefixtures("from_the_lock")
def test_importing_the_tools_does_not_build_parsers() -> None:
    code = "import altair, nbconvert, papermill, sys; print(*sorted(sys.modules))"
    command = [sys.executable, "-W", "ignore", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "jsonschema" in loaded
    assert not {"lark", "rfc3987_syntax"} & set(loaded)


@pytest.mark.parametrize(
    ("python", "expected"), [("3.11", "1.0"), ("3.12", "2.0"), ("3.13", "2.0")]
)
def test_a_pin_can_depend_on_the_python(python: str, expected: str) -> None:
    digest = "0" * 64
    text = (
        "# a comment\n"
        f"it==1.0 ; python_full_version < '3.12' \\\n    --hash=sha256:{digest}\n"
        f"it==2.0 ; python_full_version >= '3.12' \\\n    --hash=sha256:{digest}\n"
        f"win==3.0 ; sys_platform == 'win32' \\\n    --hash=sha256:{digest}\n"
    )
    pins = read_lock(text)
    assert pinned(pins["it"], python) == expected
    assert pinned(pins["win"], python) is None
