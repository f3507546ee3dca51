from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from servebook.errors import BuildError
from servebook.publish import release
from servebook.publish.release import paired, publish, staging, writable

HELPER = Path(__file__).with_name("toybuild.py")
WHOLE = ["c", "c.html", "c/charts", "c/claims.json", "c/page.sha256", "c/tables"]


@pytest.fixture(params=[True, False])
def swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system can exchange two folders in one step."""
    if not request.param:
        monkeypatch.setattr(release, "_exchange", lambda one, other: False)
    return bool(request.param)


def publish_text(output: Path, text: str) -> None:
    with staging(output, "c") as folder:
        (folder / "c" / "claims.json").write_text(text)
        (folder / "c.html").write_text(text)
        publish(folder, output, "c")


def state(output: Path) -> list[str]:
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("*"))


@pytest.mark.usefixtures("swap")
def test_a_page_replaces_the_last_one(tmp_path: Path) -> None:
    publish_text(tmp_path, "first")
    publish_text(tmp_path, "second")
    assert (tmp_path / "c.html").read_text() == "second"
    assert (tmp_path / "c" / "claims.json").read_text() == "second"
    assert state(tmp_path) == WHOLE
    assert paired(tmp_path / "c") is True
    (tmp_path / "c.html").write_text("another")
    assert paired(tmp_path / "c") is False
    (tmp_path / "c" / "page.sha256").unlink()
    assert paired(tmp_path / "c") is None


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum on this machine")
def test_the_seal_is_one_that_sha256sum_reads(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")
    check = ["sha256sum", "--check", "page.sha256"]
    told = subprocess.run(check, cwd=tmp_path / "c", capture_output=True, text=True, check=True)
    assert told.stdout == "../c.html: OK\n"


@pytest.mark.usefixtures("swap")
def test_a_page_that_cannot_be_put_there_leaves_the_last_folder(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")
    (tmp_path / "c.html").unlink()
    (tmp_path / "c.html" / "in the way").mkdir(parents=True)
    with pytest.raises(BuildError, match="cannot write the page to"):
        publish_text(tmp_path, "new")
    assert (tmp_path / "c" / "claims.json").read_text() == "good"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["c", "c.html"]


def test_a_failure_leaves_the_last_page_and_nothing_else(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")
    before = state(tmp_path)

    def fail_halfway() -> None:
        with staging(tmp_path, "c") as folder:
            (folder / "c.html").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert state(tmp_path) == before
    assert (tmp_path / "c.html").read_text() == "good"


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")
    with (
        pytest.raises(BuildError, match="No space left on device; the last good page is as it was"),
        staging(tmp_path, "c"),
    ):
        raise OSError(28, os.strerror(28))
    assert (tmp_path / "c.html").read_text() == "good"


def test_a_target_that_is_a_file_is_one_message(tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("")
    with pytest.raises(BuildError, match="cannot write the page to"), staging(target, "c"):
        pass


def test_what_a_killed_build_left_is_swept(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    left = tmp_path / f".staging-c-{ended.stdout.strip()}"
    left.mkdir()
    (left / "c.html").write_text("half")
    living = tmp_path / f".staging-d-{os.getppid()}"
    living.mkdir()
    publish_text(tmp_path, "good")
    assert not left.exists()
    assert living.exists()


def test_what_a_killed_build_had_set_aside_goes_back(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    left = tmp_path / f".staging-c-{ended.stdout.strip()}"
    left.mkdir()
    (tmp_path / "c").replace(left / "c.old")
    release._sweep(tmp_path)
    assert (tmp_path / "c" / "claims.json").read_text() == "good"
    assert not left.exists()


def killed_at(step: int, act: Callable[[], None]) -> bool:
    """Run ``act`` in a process of its own that is killed at its ``step``-th call of the system.

    False where it ended before that.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, _: tuple[object, ...]) -> None:
            nonlocal seen
            if event.startswith(("open", "os.", "shutil.")):
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            act()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("swap")
def test_killed_at_any_step_a_build_leaves_one_whole_page_with_its_files(tmp_path: Path) -> None:
    publish_text(tmp_path, "0")
    step, old = 0, "0"
    while step < 500:
        step += 1
        new = str(step)
        killed = killed_at(step, lambda: publish_text(tmp_path, new))  # noqa: B023
        assert (tmp_path / "c.html").read_text() in (old, new)
        writable(tmp_path)  # what the next build does first
        page = (tmp_path / "c.html").read_text()
        assert page in (old, new)
        assert (tmp_path / "c" / "claims.json").read_text() == page
        assert state(tmp_path) == WHOLE
        if not killed:
            break
        publish_text(tmp_path, new)
        old = new
    assert 10 < step < 500


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_first_build_that_is_killed_leaves_all_or_nothing(tmp_path: Path) -> None:
    for step in range(1, 500):
        output = tmp_path / str(step)
        output.mkdir()
        killed = killed_at(step, lambda: publish_text(output, "new"))  # noqa: B023
        writable(output)
        assert state(output) in ([], WHOLE)
        assert state(output) == [] or paired(output / "c")
        if not killed:
            break
    assert state(output) == WHOLE


def test_a_target_that_cannot_be_written_to_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        BuildError, match=r"cannot write the page to .*/file/report: Not a directory"
    ):
        writable(tmp_path / "file" / "report")
    writable(tmp_path / "report")
    assert state(tmp_path) == ["file", "report"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_target_is_told_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(BuildError, match="Permission denied; the last good page is as it was"):
            writable(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_a_disk_that_fills_up_leaves_the_last_page(tmp_path: Path) -> None:
    publish_text(tmp_path, "good")

    def fill() -> None:
        # The system refuses to let a file grow, as a full disk does.
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            publish_text(tmp_path, "x" * 200_000)
        except BuildError as error:
            (tmp_path / "told").write_text(str(error))

    assert not killed_at(0, fill)
    told = (tmp_path / "told").read_text()
    assert "File too large; the last good page is as it was" in told
    (tmp_path / "told").unlink()
    assert (tmp_path / "c.html").read_text() == "good"
    assert state(tmp_path) == WHOLE


def test_a_killed_build_of_a_campaign_leaves_the_last_good_page(
    tmp_path: Path, toy_page: Path
) -> None:
    report = tmp_path / "report"
    report.mkdir()
    good = b"the last good page"
    (report / "toy.html").write_bytes(good)
    whole = toy_page.read_bytes()
    chance = random.Random(6)
    for early in (True, False, False):
        build = subprocess.Popen(
            [sys.executable, str(HELPER), str(tmp_path)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if early:
            time.sleep(chance.uniform(0.5, 4))
        else:  # while it writes
            while build.poll() is None and not list(report.glob(".staging-toy-*")):
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.15))
        os.killpg(build.pid, signal.SIGKILL)
        build.wait()
        assert (report / "toy.html").read_bytes() in (good, whole)
