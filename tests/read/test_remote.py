from __future__ import annotations

import functools
import http.server
import json
import os
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.registry import known_implementations
from hypothesis import given
from hypothesis import strategies as st

from servebook import cli
from servebook.errors import DumpError, ServebookError
from servebook.read import remote, urls
from servebook.read.ahead import _threads
from servebook.read.discover import read_tree
from servebook.read.remote import fetched, local, mirror, origin
from servebook.read.remote_listing import _check
from servebook.read.urls import is_url, last_name, opened, shown
from tests.read.samples import record, write_lines

Fetches = list[str]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SERVEBOOK_ORIGINS", "{}")
    monkeypatch.delenv(remote.LIMIT, raising=False)


@pytest.fixture
def bucket() -> Iterator[Any]:
    """fsspec's file system in memory, with two runs below ``memory://bucket/campaign``."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    for run in range(2):
        text = "".join(json.dumps(record(n + 10 * run)) + "\n" for n in range(3))
        system.pipe(f"/bucket/campaign/raw/run {run}/profile_export.jsonl", text.encode())
    yield system
    system.store.clear()


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    """The names of the files that were fetched."""
    found: Fetches = []
    sound = remote._one

    def counted(system: Any, path: str, file: Any, *rest: Any) -> Any:
        found.append(file.name)
        return sound(system, path, file, *rest)

    monkeypatch.setattr(remote, "_one", counted)
    return found


URL = "memory://bucket/campaign"
RUNS = [f"raw/run {n}/profile_export.jsonl" for n in range(2)]


def test_a_folder_at_a_url_is_read_as_one_here(bucket: Any, tmp_path: Path) -> None:
    for run in range(2):
        lines = [record(n + 10 * run) for n in range(3)]
        write_lines(tmp_path / "here" / "campaign" / RUNS[run], *lines)
    path = local(URL)
    assert path.name == "campaign"
    assert read_tree(path) == read_tree(tmp_path / "here" / "campaign")
    assert local(URL + "/") == path  # with or without a stroke at its end
    assert bucket.exists("/bucket/campaign")


def test_what_has_not_changed_is_not_fetched_again(bucket: Any, fetches: Fetches) -> None:
    path = mirror(URL)
    assert sorted(fetches) == RUNS
    fetches.clear()
    assert mirror(URL) == path
    assert fetches == []
    bucket.pipe(f"/bucket/campaign/{RUNS[1]}", b"other")
    bucket.pipe("/bucket/campaign/raw/new.txt", b"new")
    mirror(URL)
    assert sorted(fetches) == ["raw/new.txt", RUNS[1]]
    assert (path / RUNS[1]).read_bytes() == b"other"
    fetches.clear()
    (path / RUNS[0]).write_bytes(b"altered here")  # its own time and size tell
    mirror(URL)
    assert fetches == [RUNS[0]]
    assert (path / RUNS[0]).read_bytes() == bucket.cat(f"/bucket/campaign/{RUNS[0]}")


def test_what_is_gone_there_goes_here(bucket: Any, fetches: Fetches) -> None:
    path = mirror(URL)
    bucket.rm(f"/bucket/campaign/{RUNS[0]}")
    mirror(URL)
    found = sorted(p.relative_to(path).as_posix() for p in path.rglob("*"))
    assert found == ["raw", "raw/run 1", RUNS[1]]
    kept = json.loads((path.parents[1] / "index.json").read_bytes())
    assert list(kept["files"]) == [RUNS[1]]
    assert len(fetches) == 2


def test_one_file_and_one_archive(bucket: Any, tmp_path: Path) -> None:
    path = local(f"{URL}/{RUNS[0]}")
    assert path.name == "profile_export.jsonl"
    assert read_tree(path).requests.num_rows == 3
    write_lines(tmp_path / "pack" / "run" / "profile_export.jsonl", record())
    with tarfile.open(tmp_path / "runs.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "pack", "pack")
    bucket.pipe("/bucket/runs.tar.gz", (tmp_path / "runs.tar.gz").read_bytes())
    assert read_tree(local("memory://bucket/runs.tar.gz")).requests.num_rows == 1


def test_a_file_url_is_the_path_itself(tmp_path: Path) -> None:
    assert local(f"file://{tmp_path}") == tmp_path
    assert local(tmp_path) == tmp_path
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("bucket")
def test_without_a_cache_a_mirror_lasts_as_long_as_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", "")
    assert read_tree(local(URL)).requests.num_rows == 6
    assert [folder.cleanup() for folder in remote._temporary]
    remote._temporary.clear()


def test_another_machine_fetches_what_it_reads_and_no_more(
    bucket: Any, fetches: Fetches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = mirror(URL)
    told = origin([root / RUNS[1]])
    assert told is not None
    assert told[0] == root
    found = told[1]
    assert (found.url, found.single, [f.name for f in found.files]) == (URL, False, [RUNS[1]])
    assert origin([tmp_path / RUNS[1]]) is None
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "of a worker"))
    fetches.clear()
    there = fetched(found)
    assert fetches == [RUNS[1]]
    assert there.is_relative_to(tmp_path / "of a worker")
    assert (there / RUNS[1]).read_bytes() == bucket.cat(f"/bucket/campaign/{RUNS[1]}")
    fetched(found)
    assert fetches == [RUNS[1]]
    one = local(f"{URL}/{RUNS[0]}")
    single = origin([one])
    assert single is not None
    assert single[0] == one.parent
    assert (fetched(single[1]) / "profile_export.jsonl").is_file()


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("0.0000001", "expected at most 1e-07 GiB, found "),
        ("much", "SERVEBOOK_REMOTE_GIB: expected a number of GiB, found 'much'"),
    ],
)
def test_too_much_is_told_before_anything_is_fetched(
    limit: str, words: str, bucket: Any, fetches: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(remote.LIMIT, limit)
    with pytest.raises(ServebookError, match=words):
        mirror(URL)
    assert fetches == []
    assert bucket


def test_too_much_of_unknown_size_is_told_while_it_comes(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servebook.read.remote_listing._size", lambda _: None)
    monkeypatch.setenv(remote.LIMIT, "0.0000001")
    with pytest.raises(ServebookError, match="campaign: brings more than 1e-07 GiB"):
        mirror(URL)
    assert bucket


def test_too_many_files_are_told(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_FILES", 1)
    with pytest.raises(ServebookError, match="at most 1 files, found 2; name a folder"):
        mirror(URL)
    assert bucket


def test_a_file_that_comes_in_part_is_no_file(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servebook.read.remote_listing._size", lambda _: 10_000)
    with pytest.raises(DumpError, match=r"found 1,[0-9]+ of 10,000 bytes of raw/run"):
        mirror(URL)
    [tree] = (remote._folder(URL) / "tree").iterdir()
    assert [path for path in tree.rglob("*") if path.is_file()] == []
    assert bucket


def test_nothing_there_is_told() -> None:
    for url in ("memory://nowhere/at/all", "memory://nowhere/"):
        with pytest.raises(DumpError, match="found nothing there"):
            mirror(url)


@pytest.mark.parametrize(
    "names",
    [["../a"], ["a/../../b"], ["a//b"], ["a", "a/b"], ["x" * 256], ["a\\b"], ["a\0"], ["./a"]],
)
def test_names_that_would_leave_the_mirror_are_refused(names: list[str]) -> None:
    with pytest.raises(DumpError, match="names that can be files of one folder"):
        _check(names, URL)


def test_usual_names_are_taken() -> None:
    _check(["a", "b/c d.json", "b/ü.jsonl", "ab"], URL)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder with index pages and without a word on the terminal."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server on loopback, and the folder that it serves."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_web_server_is_read_by_its_index_pages(
    web: tuple[str, Path], fetches: Fetches, tmp_path: Path
) -> None:
    url, folder = web
    names = ["runs/run é 1/profile_export.jsonl", "runs/b/profile_export.jsonl"]
    for n, name in enumerate(names):
        write_lines(folder / name, record(n))
    (folder / "beside.txt").write_text("not below it")
    for spelled in (f"{url}/runs", f"{url}/runs/"):
        path = local(spelled)
        found = {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()}
        assert found == {name.removeprefix("runs/") for name in names}
        assert read_tree(path) == read_tree(folder / "runs")
    assert len(fetches) == 2  # the second spelling brought nothing new
    assert path.is_relative_to(tmp_path / "cache")


def test_a_folder_of_a_web_server_with_a_key_that_each_file_needs(
    web: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url, folder = web
    write_lines(folder / "runs" / "a b" / "profile_export.jsonl", record())
    allowed = Handler.do_GET, Handler.do_HEAD

    def guarded(number: int) -> Callable[[Handler], None]:
        def answer(self: Handler) -> None:
            if "sig=geheim7" in self.path:
                allowed[number](self)
            else:
                self.send_error(403)

        return answer

    monkeypatch.setattr(Handler, "do_GET", guarded(0))
    monkeypatch.setattr(Handler, "do_HEAD", guarded(1))
    path = local(f"{url}/runs/?sig=geheim7")
    assert [p.relative_to(path).as_posix() for p in path.rglob("*.jsonl")] == [
        "a b/profile_export.jsonl"
    ]
    assert read_tree(path).requests.num_rows == 1
    for kept in (tmp_path / "cache").rglob("*"):
        assert "geheim7" not in str(kept)
        assert kept.is_dir() or b"geheim7" not in kept.read_bytes()


def test_one_file_of_a_web_server_with_a_key_that_is_shown_nowhere(
    web: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, folder = web
    write_lines(folder / "profile_export.jsonl", record())
    path = local(f"{url}/profile_export.jsonl?X-Amz-Signature=geheim7")
    assert read_tree(path).requests.num_rows == 1
    with pytest.raises(DumpError) as raised:
        local(f"{url}/none.jsonl?X-Amz-Signature=geheim7")
    assert str(raised.value).startswith(f"{url}/none.jsonl: expected a file or folder, found noth")
    assert "geheim7" not in str(raised.value)
    assert "geheim7" not in capsys.readouterr().err
    for kept in (tmp_path / "cache").rglob("*"):
        assert "geheim7" not in str(kept)
        assert kept.is_dir() or b"geheim7" not in kept.read_bytes()


def test_a_server_that_is_not_there_is_told(web: tuple[str, Path]) -> None:
    assert web
    with pytest.raises(DumpError, match=r"http://127.0.0.1:9/a.jsonl: expected .* check the URL"):
        local("http://127.0.0.1:9/a.jsonl")


def test_fetching_leaves_nothing_that_forbids_to_fork(web: tuple[str, Path]) -> None:
    url, folder = web
    before = _threads()
    write_lines(folder / "profile_export.jsonl", record())
    local(f"{url}/profile_export.jsonl")
    # The server of this test answers in a thread of its own, which may end a moment later.
    ends = time.monotonic() + 30
    while _threads() > before and time.monotonic() < ends:
        time.sleep(0.05)
    assert _threads() <= before


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://bucket/a", r"s3:// needs the package s3fs.* pip install s3fs"),
        ("gs://bucket/a", r"gs:// needs the package gcsfs.* pip install gcsfs"),
        ("nosuch://me:geheim7@host/a", "expected a URL of s3, gs, http, https, file"),
        ("simplecache::s3://bucket/a", "expected a URL of s3, gs, http, https, file"),
        ("http://[2001:db8::1]:8000/a", r"^http://\[2001:db8::1\]:8000/a: .*without '::'"),
        ("http://me:geheim7@[::1/a?geheim7", r"^http://\.\.\.: .*without '::'"),
        ("http://me:geheim7@[1/a?geheim7", r"^http://\.\.\.: .*ValueError.*check its spelling"),
    ],
)
def test_protocols_that_cannot_be_read_here_are_told(
    url: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install it")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(ServebookError, match=words) as raised:
        opened(url)
    assert "geheim7" not in str(raised.value)


@given(st.text(), st.text())
def test_any_text_is_a_path_or_a_url_that_shows_no_key(text: str, key: str) -> None:
    assert isinstance(cli.place(text), str) == is_url(text)
    token = "geheim7" + "".join(c for c in key if c.isalnum())
    assert token not in shown(f"https://{token}:{token}@host/a?{token}#{token}")
    name = last_name(f"s3://bucket/{text}")
    assert name
    assert not {"/", "\\", "\0"} & set(name)
    assert not name.startswith(".")


def test_of_all_protocols_that_are_named_fsspec_knows_each() -> None:
    assert set(urls._PACKAGES) <= set(known_implementations)


def test_what_a_file_system_raises_is_told_without_its_words(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: Exception) -> Callable[..., None]:
        def find(*_: object, **__: object) -> None:
            raise error

        return find

    for error in (PermissionError("geheim7"), type("ClientError", (Exception,), {})("geheim7")):
        monkeypatch.setattr(type(bucket), "find", failing(error))
        with pytest.raises(DumpError, match=type(error).__name__) as raised:
            mirror(URL)
        assert "geheim7" not in str(raised.value)
    assert os.environ["SERVEBOOK_ORIGINS"] == "{}"


def test_commands_take_urls_and_show_them_without_keys(
    web: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    url, folder = web
    write_lines(folder / "run" / "profile_export.jsonl", record())
    name = f"{url}/run/profile_export.jsonl"
    assert cli.main(["inspect", f"{name}?sig=geheim7"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[0] == name
    assert "geheim7" not in told.out + told.err
    assert cli.main(["measure", f"{url}/run/"]) == 0
    assert "1 requests" in capsys.readouterr().out
    assert cli.main(["build", f"{url}/run/"]) == 1
    assert "holds no campaign.yaml" in capsys.readouterr().err
