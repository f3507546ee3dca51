"""Wheels hold the compiled part where a compiler is there, and are whole without one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = {f"servebook/read/aiperf_{name}.c" for name in ("lists", "rows", "wide")}
#: What is said in one line where there is no library.
LONGER = "servebook: reading large dumps takes longer: "


@pytest.fixture(scope="module")
def project(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of what is built, without what was compiled before."""
    folder = tmp_path_factory.mktemp("a project")
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py", ".gitignore"):
        shutil.copy(project_root / name, folder / name)
    left_out = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("servebook", "report/text"):
        shutil.copytree(project_root / name, folder / name, ignore=left_out)
    yield folder
    shutil.rmtree(folder)


def build(project: Path, target: str, **environment: str) -> tuple[Path, str]:
    out = project / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    (built,) = out.iterdir()
    return built, done.stdout + done.stderr


def libraries(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert set(names) >= SOURCES
    return [name for name in names if name.endswith(".so")]


def test_a_wheel_with_the_library(project: Path) -> None:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler (cc, gcc, clang)")
    path = str(Path(shutil.which("cc") or "").parent)
    (project / "servebook/read/libaiperf-of-another.so").touch()
    wheel, said = build(project, "wheel", PATH=path)
    (name,) = libraries(wheel)
    assert name.startswith("servebook/read/libaiperf-")
    assert LONGER not in said
    assert "-py3-none-" in wheel.name
    assert "-any" not in wheel.name


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({}, "there is no C compiler (cc, gcc, clang)"),
        ({"CC": "nowhere"}, "nowhere did not compile its C part (FileNotFoundError)"),
        ({"CC": "false"}, "false did not compile its C part (CalledProcessError)"),
        ({"CC": "'cc -O2"}, "CC is no command (No closing quotation)"),
        ({"SERVEBOOK_COMPILED": "0"}, "SERVEBOOK_COMPILED=0 leaves the compiled part out"),
    ],
)
def test_a_wheel_without_it(
    project: Path, tmp_path: Path, environment: dict[str, str], reason: str
) -> None:
    (tmp_path / "false").symlink_to(shutil.which("false") or "")
    wheel, said = build(project, "wheel", PATH=str(tmp_path), **environment)
    assert [line for line in said.splitlines() if "longer" in line] == [LONGER + reason]
    assert libraries(wheel) == []
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not list(project.glob("servebook/read/*.new"))


def test_the_source_goes_with_the_package(project: Path) -> None:
    archive, _ = build(project, "sdist", PATH="")
    with tarfile.open(archive) as found:
        names = {name.partition("/")[2] for name in found.getnames()}
    assert {*SOURCES, "hatch_build.py"} <= names
    assert not any(name.endswith(".so") for name in names)
