from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from servebook import cli
from servebook.read import cluster_sums, sums
from servebook.read.cluster import Call
from servebook.read.cluster_sums import hash_ahead, sum_there
from servebook.read.sums import is_remembered, remember, remembered_sha256

OLD = 10**18


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the cluster is asked for; it answers from this process."""
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "tcp://127.0.0.1:1")
    monkeypatch.setattr(sums, "_seen", {})
    monkeypatch.setattr(sums, "settled", lambda _: True)
    monkeypatch.setattr(cluster_sums, "_LEAST_BYTES", 1 << 20)
    found: list[str] = []

    def outcomes(calls: Sequence[Call]) -> list[tuple[int, str | None]]:
        found.extend(Path(call.arguments[0]).name for call in calls)
        return [(n, sum_there(*call.arguments)) for n, call in enumerate(calls)]

    monkeypatch.setattr(cluster_sums, "outcomes", outcomes)
    return found


def big(path: Path, letter: bytes = b"a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(letter * (1 << 20))
    return path


def test_big_files_are_hashed_there_once(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = big(tmp_path / "d" / "a" / "one"), big(tmp_path / "d" / "two", b"b")
    (tmp_path / "d" / "small").write_text("x")
    (tmp_path / "d" / "nowhere").symlink_to(tmp_path / "no such file")
    assert hash_ahead([tmp_path / "d"]) == 2
    assert sorted(asked) == ["one", "two"]
    assert hash_ahead([tmp_path / "d"]) == 0
    assert len(asked) == 2
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read here"))
    assert remembered_sha256(one) == hashlib.sha256(one.read_bytes()).hexdigest()
    assert remembered_sha256(two) == hashlib.sha256(two.read_bytes()).hexdigest()


def test_a_file_that_is_another_there_is_hashed_here(asked: list[str], tmp_path: Path) -> None:
    one = big(tmp_path / "d" / "one")
    status = one.stat()
    assert sum_there(str(one), status.st_size + 1, status.st_mtime_ns) is None
    assert sum_there(str(one), status.st_size, status.st_mtime_ns + 1) is None
    assert sum_there(str(tmp_path / "none"), 1, 1) is None
    assert not is_remembered(one)
    assert asked == []


def test_a_digest_of_a_file_that_has_changed_since_is_not_kept(
    asked: list[str], tmp_path: Path
) -> None:
    one = big(tmp_path / "d" / "one")
    before = one.stat()
    os.utime(one, ns=(OLD, OLD))
    assert not remember(one, before, "0" * 64)
    assert not remember(tmp_path / "none", before, "0" * 64)
    assert not is_remembered(one)
    assert remember(one, one.stat(), "0" * 64)
    assert remembered_sha256(one) == "0" * 64
    assert asked == []


def test_a_build_asks_for_the_campaigns_that_it_builds(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("notebooks", "report/template"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("a", "b"):
        big(tmp_path / "data" / name / f"dump of {name}")
        (tmp_path / "data" / name / "campaign.yaml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_build", lambda _: 0)
    assert cli.main(["build", "data/b", "--scheduler", "tcp://127.0.0.1:1"]) == 0
    assert asked == ["dump of b"]
    assert cli.main(["build", "--scheduler", "tcp://127.0.0.1:1"]) == 0
    assert sorted(asked) == ["dump of a", "dump of b"]


def test_without_a_cluster_nothing_is_asked(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    big(tmp_path / "d" / "one")
    assert hash_ahead([tmp_path / "d"]) == 0
    assert asked == []
