from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from servebook.read import archives, files
from servebook.read.campaign import load
from servebook.read.codecs import open_unpacked
from servebook.read.discover import discover, read_tree
from servebook.read.draft import draft
from servebook.read.files import lines, sha256, walk
from servebook.read.inspect import inspect
from servebook.read.manifest import load_manifest
from servebook.read.reading import read_sources
from tests.read.archive_samples import PACKERS, names, put, tar_of, zip_of
from tests.read.samples import FIXTURES, record, vllm_result, write_json, write_lines


@pytest.fixture
def run_json(tmp_path: Path) -> bytes:
    write_json(tmp_path / "made" / "r.json", vllm_result())
    return (tmp_path / "made" / "r.json").read_bytes()


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_compressed_file_is_read_as_its_content(tmp_path: Path, suffix: str) -> None:
    content = b"one\ntwo\n" * 50_000
    path = put(tmp_path, f"a.txt{suffix}", PACKERS[suffix](content))
    assert b"".join(line + b"\n" for _, line in lines(path)) == content
    path.write_bytes(PACKERS[suffix](content) + PACKERS[suffix](b"three\n"))
    assert list(lines(path))[-1] == (100_001, b"three")


@pytest.mark.parametrize("suffix", [s for s in PACKERS if s])
def test_a_compressed_file_that_is_cut_short_says_so(tmp_path: Path, suffix: str) -> None:
    content = os.urandom(300_000).hex().encode()
    whole = PACKERS[suffix](b"\n".join(content[i : i + 80] for i in range(0, len(content), 80)))
    path = put(tmp_path, f"a.txt{suffix}", whole[: len(whole) // 2])
    with pytest.raises(files.DumpError, match="cut short or damaged"):
        list(lines(path))


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("of", [tar_of, zip_of])
def test_an_archive_is_a_folder(
    tmp_path: Path, run_json: bytes, suffix: str, of: Callable[..., bytes]
) -> None:
    packed = of(("runs/c1/r.json", run_json), ("runs/c2/r.json", run_json.replace(b"}", b" }")))
    tree = tmp_path / "tree"
    put(tree, f"sub/all.pack{suffix}", PACKERS[suffix](packed))
    runs = read_tree(tree).runs
    assert runs["run_id"].to_pylist() == [
        f"sub/all.pack{suffix}/runs/c1",
        f"sub/all.pack{suffix}/runs/c2",
    ]
    made = tmp_path / "made" / "r.json"
    assert runs["sha256"][0].as_py() == sha256(made)
    assert runs["path"][0].as_py() == f"sub/all.pack{suffix}/runs/c1/r.json"


def test_inspect_opens_an_archive_itself(tmp_path: Path, run_json: bytes) -> None:
    path = put(tmp_path, "all.tgz", gzip.compress(tar_of(("./a/r.json", run_json))))
    assert [run["run_id"] for run in inspect(path)["runs"]] == ["a"]
    alone = put(tmp_path, "one.zip", zip_of(("r.json", run_json)))
    assert [run["run_id"] for run in inspect(alone)["runs"]] == ["one.zip"]


def test_real_run_from_an_archive_equals_the_folder(tmp_path: Path) -> None:
    folder = next(p for p in sorted(FIXTURES.glob("aiperf*")) if p.is_dir())
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname="run")
    plain, packed = read_tree(folder), read_tree(tmp_path / "t.tar.gz")
    assert plain.runs.num_rows >= 1
    for table in ("requests", "gaps"):
        drop = ["run_id"]
        assert getattr(plain, table).drop(drop).equals(getattr(packed, table).drop(drop))
    assert plain.runs["sha256"].equals(packed.runs["sha256"])


def test_the_cache_knows_a_member_by_its_content(
    tmp_path: Path, run_json: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    tree = tmp_path / "tree"

    def entries() -> int:
        [part] = read_sources(discover(tree).sources, [])
        assert part.inputs[0][0] == "a.tar/r/r.json"
        return len(list((tmp_path / "cache").glob("*/*")))

    put(tree, "a.tar", tar_of(("r/r.json", run_json)))
    assert entries() == 1
    put(tree, "a.tar", tar_of(("r/r.json", run_json), ("r/note.md", b"x")))
    assert entries() == 1  # the same member in another archive
    put(tree, "a.tar", tar_of(("r/r.json", run_json + b"\n")))
    assert entries() == 2


def test_thousands_of_members(tmp_path: Path) -> None:
    put(tmp_path / "tree", "t.tar", tar_of(*((f"d/f{i:04}", b"x") for i in range(3000))))
    assert len(names(tmp_path / "tree")) == 3000


def test_office_documents_are_no_archives(tmp_path: Path) -> None:
    put(tmp_path / "tree", "t.xlsx", zip_of(("[Content_Types].xml", b"x"), ("xl/w.xml", b"y")))
    assert names(tmp_path / "tree") == ["t.xlsx"]


def test_the_scratch_folder_is_private_and_named_after_the_process(
    tmp_path: Path, run_json: bytes
) -> None:
    put(tmp_path / "tree", "t.tar", tar_of(("r.json", run_json)))
    [file] = walk(tmp_path / "tree").files
    place = next(p for p in file.path.parents if p.name.startswith(f"sb-{os.getpid()}-"))
    assert place.stat().st_mode & 0o077 == 0
    assert file.root.name == "tree"


def test_what_a_killed_process_left_is_swept_up(
    tmp_path: Path, run_json: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next archive removes the folder of a process that is gone, and no other's."""
    place = tmp_path / "tmp"
    gone, mine, other = place / "sb-999999999-x", place / f"sb-{os.getppid()}-x", place / "other"
    for folder in (gone, mine, other):
        folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(archives, "_places", {})
    put(tmp_path / "tree", "t.tar", tar_of(("r.json", run_json)))
    assert len(walk(tmp_path / "tree").files) == 1
    assert not gone.exists()
    assert mine.exists()
    assert other.exists()


def test_xz_may_not_ask_for_all_memory(tmp_path: Path) -> None:
    filters = [
        {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29, "mode": lzma.MODE_FAST, "mf": lzma.MF_HC3}
    ]
    try:
        packed = lzma.compress(b"x\n" * 1000, filters=filters)  # type: ignore[arg-type]
    except (MemoryError, lzma.LZMAError):
        pytest.skip("no memory to make such a file here")
    path = put(tmp_path, "a.xz", packed)
    stream = open_unpacked(path)
    assert stream is not None
    with stream, pytest.raises(EOFError):
        stream.read()


def test_a_line_beyond_the_limit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "profile_export.jsonl"
    write_lines(path, record(0), b'{"metadata": "' + b"x" * (2 << 20) + b'"}', record(1))
    tables = read_tree(tmp_path)
    assert tables.requests.num_rows == 2
    [reason] = tables.set_aside["reason"].to_pylist()
    assert "1 MiB, the limit" in reason


def test_a_whole_file_beyond_the_limit_is_named(
    tmp_path: Path, run_json: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 1 << 20)
    put(tmp_path / "tree", "r.json.gz", gzip.compress(run_json + b" " * (2 << 20)))
    [reason] = read_tree(tmp_path / "tree").refused["reason"].to_pylist()
    assert "1 MiB, the limit" in reason


MANIFEST = """\
servebook: 1
name: packed
provenance: measured
configurations:
  one: {label: One}
  two: {label: Two}
runs:
  - {match: "first.tar.gz/c{concurrency}", configuration: one}
  - {match: "second.zip/**", configuration: two}
counters:
  - match: "first.tar.gz/nic.csv"
    device: host
    columns: {ts: when, rx_bytes: got}
"""


def test_a_campaign_reaches_into_archives(tmp_path: Path) -> None:
    """Patterns match members, a mapped CSV is found there, and the inputs name each member."""
    lines_ = b"".join(json.dumps(record(n)).encode() + b"\n" for n in range(3))
    table = b"when,got\n1795972676,5\n1795972677,9\n"
    first = tar_of(("c8/profile_export.jsonl", lines_), ("nic.csv", table))
    put(tmp_path, "campaign.yaml", MANIFEST.encode())
    put(tmp_path, "first.tar.gz", gzip.compress(first))
    put(tmp_path, "second.zip", zip_of(("a/b/profile_export.jsonl", lines_ + lines_[:0] + b"\n")))
    book = load(tmp_path)
    runs = book.tables.runs.to_pylist()
    assert [(r["run_id"], r["configuration"], r["concurrency"]) for r in runs] == [
        ("first.tar.gz/c8", "one", 8),
        ("second.zip/a/b", "two", None),
    ]
    assert book.tables.samples["count"].to_pylist() == [5, 9]
    assert book.tables.samples["source"].to_pylist() == ["first.tar.gz/nic.csv"] * 2
    assert book.inputs["path"].to_pylist() == [
        "campaign.yaml",
        "first.tar.gz/c8/profile_export.jsonl",
        "first.tar.gz/nic.csv",
        "second.zip/a/b/profile_export.jsonl",
    ]
    assert book.inputs["sha256"][1].as_py() == hashlib.sha256(lines_).hexdigest()


def test_order_does_not_depend_on_where_members_lie(tmp_path: Path, run_json: bytes) -> None:
    """A packed run sorts by its path like any other, whatever the scratch folder is called."""
    put(tmp_path, "tree/a/r.json", run_json)
    put(tmp_path, "tree/b.tar", tar_of(("r.json", run_json + b"\n")))
    put(tmp_path, "tree/c/r.json", run_json + b"\n\n")
    assert read_tree(tmp_path / "tree").runs["run_id"].to_pylist() == ["a", "b.tar", "c"]


def test_a_copy_in_an_archive_counts_once(tmp_path: Path, run_json: bytes) -> None:
    put(tmp_path, "tree/run/r.json", run_json)
    put(tmp_path, "tree/run.tar.gz", gzip.compress(tar_of(("run/r.json", run_json))))
    found = discover(tmp_path / "tree")
    assert len(found.sources) == 1
    [(_, why)] = found.refused
    assert "a copy of" in why


def test_a_first_manifest_reaches_into_archives(tmp_path: Path) -> None:
    lines_ = b"".join(json.dumps(record(n)).encode() + b"\n" for n in range(3))
    put(tmp_path, "runs.tgz", gzip.compress(tar_of(("c8/profile_export.jsonl", lines_))))
    assert "1 run in 1 entry" in draft(tmp_path)
    [run] = load(tmp_path).tables.runs.to_pylist()
    assert (run["run_id"], run["concurrency"]) == ("runs.tgz/c8", 8)
    assert load_manifest(tmp_path).runs[0].match == "runs.tgz/c{concurrency}"
