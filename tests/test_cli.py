"""The command line as a shell sees it: terminals, pipes, full disks, locales."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servebook.cli import main
from tests.read.samples import record, write_lines


@pytest.mark.parametrize("command", ["inspect", "measure", "stalls"])
def test_names_cannot_steer_a_terminal(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(tmp_path / "e\x1b[31mvil\u202e" / "profile_export.jsonl", record(0))
    (tmp_path / "x\x1b]0;title\x07.bin").write_bytes(b"\x00")
    assert main([command, str(tmp_path)]) == 0
    assert main([command, str(tmp_path / "no\x1b[2Jthing")]) == 2
    shown = capsys.readouterr()
    assert "e\\x1b[31mvil" in shown.out
    assert not {c for c in shown.out + shown.err if not c.isprintable()} - {"\n"}


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    call = f'"{sys.executable}" -c "import sys; from servebook.cli import main; sys.exit(main())"'
    return subprocess.run(
        ["bash", "-c", script.replace("SERVEBOOK", call)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    write_lines(tmp_path / "dumps" / "réseau" / "profile_export.jsonl", record(0))
    return tmp_path


def test_a_closed_pipe_is_silent(dumps: Path) -> None:
    done = run("SERVEBOOK inspect --json dumps | true; echo ${PIPESTATUS[0]}", dumps)
    assert (done.stdout, done.stderr) in (("141\n", ""), ("0\n", ""))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_sentence(dumps: Path) -> None:
    done = run("SERVEBOOK measure dumps > /dev/full", dumps)
    assert (done.returncode, done.stderr) == (1, "servebook: output: No space left on device\n")


def test_a_locale_without_the_letters(dumps: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run("SERVEBOOK inspect dumps", dumps, **ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "r\\xe9seau" in done.stdout
