"""README and commands agree: what exists is told, and what is told exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def targets(makefile: str) -> set[str]:
    """The targets that a person calls (not files, not the special ones of make)."""
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, flags=re.M))


def commands_in(markdown: str, program: str) -> set[str]:
    """The words that follow the program's name in code, whether inline or in a block."""
    code = re.findall(r"```.*?```|`[^`\n]+`", markdown, flags=re.S)
    pattern = rf"(?:^|[\s`/$(])(?:[A-Z]+=\S+ )?{program} ([a-z][a-z-]*)"
    return {word for part in code for word in re.findall(pattern, part)}


@pytest.fixture(scope="module")
def readme(project_root: Path) -> str:
    return (project_root / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def documents(project_root: Path, readme: str) -> str:
    return readme + (project_root / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def makefile(project_root: Path) -> str:
    return (project_root / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def commands() -> set[str]:
    """The commands of the real command line, from its help."""
    command = [sys.executable, "-m", "servebook", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = set(re.findall(r"^ {4}([a-z]+)(?: |$)", text, flags=re.M))
    assert {"inspect", "build"} <= found
    return found


def test_every_command_is_in_the_readme(readme: str, commands: set[str]) -> None:
    assert commands_in(readme, "servebook") == commands


def test_every_target_is_in_the_readme_and_exists(
    readme: str, documents: str, makefile: str
) -> None:
    assert targets(makefile) - commands_in(readme, "make") == set()
    assert commands_in(documents, "make") - targets(makefile) == set()


def test_make_help_lists_every_target_with_one_line(project_root: Path, makefile: str) -> None:
    for command in (["make", "help"], ["make"]):
        done = subprocess.run(
            [*command, "--no-print-directory"],
            cwd=project_root,
            capture_output=True,
            text=True,
            check=True,
        )
        listed = dict(
            re.fullmatch(r"make (\S+) +(\S.*)", line).groups() for line in done.stdout.splitlines()
        )  # type: ignore[union-attr]
        assert set(listed) == targets(makefile)
        said = dict(re.findall(r"^([a-z-]+):.*## (.*)$", makefile, flags=re.M))
        assert listed == said  # whole, also where a description holds a colon
    assert all(len(line) < 100 for line in done.stdout.splitlines())


def test_ci_runs_the_readmes_test_command(project_root: Path, readme: str) -> None:
    shown = re.search(r"^\$ (make test)$", readme, flags=re.M)
    assert shown, "README.md shows no test command"
    script = (project_root / ".ci/run").read_text(encoding="utf-8").rstrip().splitlines()
    assert script[-1] == shown[1]


def test_every_path_in_the_readme_exists(project_root: Path, readme: str) -> None:
    linked = set(re.findall(r"\]\(([^)#:]+)\)", readme))
    listed = set(re.findall(r"^\| `([^`]+/)` \|", readme, flags=re.M))
    assert linked
    assert listed
    assert not [name for name in linked | listed if not (project_root / name).exists()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```console\n$ make report\n```", {"report"}),
        ("`CAMPAIGN=data/x make report` and `make test`", {"report", "test"}),
        ("to make something, call `servebook build`", set()),
        ("```sh\n.venv/bin/make lab\n```", {"lab"}),
    ],
)
def test_commands_are_found_in_code_only(text: str, expected: set[str]) -> None:
    assert commands_in(text, "make") == expected
