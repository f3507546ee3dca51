"""Building the environment: what it says where it cannot, and when it builds again.

The good path needs a package index, so a fresh clone's `make test` proves it, not this file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = ("sh", "make", "cat", "cmp", "dirname", "head", "rm", "touch")


class Machine:
    """A folder with the Makefile and scripts, and a PATH that holds the given programs only."""

    def __init__(self, project_root: Path, tmp_path: Path) -> None:
        self.folder = tmp_path / "a clone"  # the space is on purpose
        self.path = tmp_path / "bin"
        (self.folder / ".ci").mkdir(parents=True)
        self.path.mkdir()
        for name in ("Makefile", "pyproject.toml", "requirements.lock", ".ci/venv"):
            shutil.copy(project_root / name, self.folder / name)
        for tool in TOOLS:
            where = shutil.which(tool)
            assert where, tool
            (self.path / tool).symlink_to(where)

    def program(self, name: str, script: str) -> None:
        file = self.path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.path / "make"), *arguments]
        environment = {"PATH": str(self.path)}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def installed(self) -> None:
        """Pretend that .venv was built here, a moment after the lock was written."""
        bin_folder = self.folder / ".venv/bin"
        bin_folder.mkdir(parents=True)
        (bin_folder / "python").symlink_to(sys.executable)
        lock = (self.folder / "requirements.lock").read_text()
        (self.folder / ".venv/installed").write_text(f"{self.folder.resolve()}\n{lock}")
        (self.folder / ".venv/ready").touch()


@pytest.fixture
def machine(project_root: Path, tmp_path: Path) -> Machine:
    return Machine(project_root, tmp_path)


OLD = 'case "$2" in *print*) echo 3.9.18 ;; *) exit 1 ;; esac'
BARE = 'case "$2" in *ensurepip*) exit 1 ;; esac'


@pytest.mark.parametrize(
    ("pythons", "arguments", "message"),
    [
        (
            {},
            [],
            (
                "servebook: Python 3.11 or newer is needed, python3 is missing;"
                " install one, then: make PYTHON=python3.12 ..."
            ),
        ),
        (
            {"python3": OLD},
            [],
            (
                "servebook: Python 3.11 or newer is needed, python3 is 3.9.18;"
                " install one, then: make PYTHON=python3.12 ..."
            ),
        ),
        (
            {"python3": OLD, "other": OLD},
            ["PYTHON=other"],
            "servebook: Python 3.11 or newer is needed, PYTHON=other is 3.9.18; name another",
        ),
        (
            {"python3": OLD, "python3.12": BARE},
            [],
            (
                "servebook: python3.12 cannot make virtual environments (no venv or ensurepip);"
                " Debian and Ubuntu: apt install python3-venv; or install uv"
            ),
        ),
    ],
)
def test_one_line_says_what_is_missing_and_the_way_out(
    machine: Machine, pythons: dict[str, str], arguments: list[str], message: str
) -> None:
    for name, script in pythons.items():
        machine.program(name, script)
    done = machine.make("venv", *arguments)
    assert done.returncode == 2
    first, *others = done.stderr.splitlines()
    assert first == message
    assert all(line.startswith("make: ***") for line in others)
    assert not (machine.folder / ".venv").exists()


def would_build(machine: Machine, *arguments: str) -> bool:
    done = machine.make("--dry-run", "venv", *arguments)
    assert done.returncode == 0, done.stderr
    return ".ci/venv" in done.stdout


def test_a_good_environment_is_left_alone(machine: Machine) -> None:
    assert would_build(machine)
    machine.installed()
    assert not would_build(machine)
    assert not would_build(machine, f"PYTHON={sys.executable}")


def test_it_is_built_again_when_half_made_moved_or_for_another_python(machine: Machine) -> None:
    machine.installed()
    machine.program("python9", "echo 9.9.9")
    assert would_build(machine, "PYTHON=python9")

    ready = machine.folder / ".venv/ready"
    ready.unlink()
    assert would_build(machine)
    ready.touch()
    assert not would_build(machine)

    python = machine.folder / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert would_build(machine)
    python.unlink()
    python.symlink_to(sys.executable)
    assert not would_build(machine)

    machine.folder = machine.folder.rename(machine.folder.with_name("elsewhere"))
    assert would_build(machine)


def test_a_failed_install_leaves_no_stamp(machine: Machine) -> None:
    """A `python3 -m venv` that works, and a pip in it that does not."""
    pip = '#!/bin/sh\ncase "$2" in pip) echo no network >&2; exit 1 ;; esac\n'
    machine.program(
        "python3",
        f"[ \"$1\" = -m ] || exit 0\nmkdir -p .venv/bin\nprintf '%s' '{pip}' >.venv/bin/python\n"
        "chmod +x .venv/bin/python",
    )
    for tool in ("mkdir", "chmod", "printf"):
        (machine.path / tool).symlink_to(shutil.which(tool) or "")
    done = machine.make("venv")
    assert done.returncode == 2
    assert "no network" in done.stderr
    assert "requirements.lock could not be installed; the reason stands above" in done.stderr
    assert not (machine.folder / ".venv/ready").exists()
    assert would_build(machine)
