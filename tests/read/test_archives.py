from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servebook.read import archives, files
from servebook.read.campaign import load
from servebook.read.codecs import open_unpacked
from servebook.read.discover import discover, read_tree
from servebook.read.draft import draft
from servebook.read.files import lines, sha256, walk
from servebook.read.inspect import inspect
from servebook.read.manifest import load_manifest
from servebook.read.reading import read_sources
from tests.read.samples import FIXTURES, record, vllm_result, write_json, write_lines


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstd,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def tar_of(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def zip_of(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(path: Path) -> list[str]:
    return [file.relative for file in walk(path).files]


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


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def device(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    return info


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (("../up.json", b"{}"), "climb out"),
        (("a/../../up.json", b"{}"), "climb out"),
        (("/etc/x.json", b"{}"), "absolute name"),
        (("C:\\x.json", b"{}"), "absolute name"),
        (("n" * 256, b"{}"), "more than 255 bytes"),
        (link("a/l.json", "../../x.json"), "a link out of the archive"),
        (link("l.json", "/etc/passwd"), "a link out of the archive"),
        (link("a/l.json", "../x.json", tarfile.LNKTYPE), "a link out of the archive"),
        (device("d", tarfile.CHRTYPE), "neither a file nor a folder"),
        (device("d", tarfile.FIFOTYPE), "neither a file nor a folder"),
    ],
)
def test_members_that_may_not_come_out(
    tmp_path: Path, run_json: bytes, member: tuple[str, bytes] | tarfile.TarInfo, reason: str
) -> None:
    put(tmp_path / "tree", "t.tar", tar_of(member, ("r/r.json", run_json)))
    found = discover(tmp_path / "tree")
    assert [s.options["run_id"] for s in found.sources] == ["t.tar/r"]
    [(name, why)] = found.refused
    assert name.startswith("t.tar/")
    assert reason in why
    assert not list(tmp_path.glob("**/up.json"))


def test_links_inside_are_skipped_and_hidden_members_too(tmp_path: Path, run_json: bytes) -> None:
    content = tar_of(
        ("r/r.json", run_json),
        link("r/again.json", "r.json"),
        link("hard.json", "r/r.json", tarfile.LNKTYPE),
        ("__MACOSX/._r.json", b"x"),
        ("r/_own/x.json", run_json),
    )
    put(tmp_path / "tree", "t.tar", content)
    found = discover(tmp_path / "tree")
    assert found.refused == ()
    assert found.companions == (
        "t.tar/__MACOSX/._r.json",
        "t.tar/hard.json",
        "t.tar/r/_own/x.json",
        "t.tar/r/again.json",
    )


def test_a_hidden_archive_stays_shut(tmp_path: Path, run_json: bytes) -> None:
    put(tmp_path, "tree/_old.tar", tar_of(("r/r.json", run_json)))
    put(tmp_path, "tree/r.json", run_json)
    found = discover(tmp_path / "tree")
    assert len(found.sources) == 1
    assert found.companions == ("_old.tar",)


@pytest.mark.parametrize("of", [tar_of, zip_of])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_members_of_one_name_the_last_counts(
    tmp_path: Path, run_json: bytes, of: Callable[..., bytes]
) -> None:
    newer = run_json + b"\n\n"
    path = put(tmp_path / "tree", "t", of(("r.json", run_json), ("./r.json", newer)))
    found = walk(path.parent)
    assert [file.path.read_bytes() for file in found.files] == [newer]
    assert [why for _, why in found.refused] == [
        "a member that comes again later; the last one counts"
    ]


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path / "tree", "t.tar", tar_of(("a", b"x"), ("a/b", b"y"), ("c/d", b"z"), ("c", b"w")))
    found = walk(tmp_path / "tree")
    assert [file.relative for file in found.files] == ["t.tar/a", "t.tar/c/d"]
    assert [name for name, _ in found.refused] == ["t.tar/a/b", "t.tar/c"]


def test_names_that_are_not_utf8_stay_two_names(tmp_path: Path) -> None:
    members = [(os.fsdecode(b"r\xe4.json"), b"x"), (os.fsdecode(b"r\xe5.json"), b"y")]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    put(tmp_path / "tree", "t.tar", out.getvalue())
    assert names(tmp_path / "tree") == ["t.tar/r\\xe4.json", "t.tar/r\\xe5.json"]
    packed = zip_of(("rx.json", b"x")).replace(b"rx.json", b"r\xe4.json")
    put(tmp_path / "tree", "t.tar", packed)
    assert len(names(tmp_path / "tree")) == 1  # zip's old code page has a character for each byte


def test_archives_inside_archives(tmp_path: Path, run_json: bytes) -> None:
    inner = gzip.compress(tar_of(("r/r.json", run_json)))
    put(tmp_path / "two", "o.zip", zip_of(("in.tar.gz", inner)))
    assert names(tmp_path / "two") == ["o.zip/in.tar.gz/r/r.json"]
    for _ in range(archives.MAX_DEPTH):
        inner = tar_of(("in.tar", inner))
    put(tmp_path / "deep", "o.tar", inner)
    found = walk(tmp_path / "deep")
    assert found.files == []
    [(name, why)] = found.refused
    assert name == "o.tar/in.tar/in.tar/in.tar"
    assert "inside 3 others" in why


def test_encrypted_and_foreign_members_are_refused_with_the_way_out(tmp_path: Path) -> None:
    packed = bytearray(zip_of(("a.json", b"{}"), ("b.json", b"[]")))
    at = packed.index(b"PK\x01\x02")
    packed[at + 8] |= 1  # the flag of encryption
    second = packed.index(b"PK\x01\x02", at + 4)
    packed[second + 10 : second + 12] = struct.pack("<H", 9)  # Deflate64
    put(tmp_path / "tree", "t.zip", bytes(packed))
    put(tmp_path / "tree", "t.7z", b"7z\xbc\xaf\x27\x1c" + bytes(40))
    reasons = dict(walk(tmp_path / "tree").refused)
    assert "password" in reasons["t.zip/a.json"]
    assert "method 9" in reasons["t.zip/b.json"]
    assert "7-Zip" in reasons["t.7z"]


def test_bombs_are_refused_with_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_ALWAYS_BYTES", 1 << 20)
    zeros = bytes(3 << 20)
    small = {
        "a.zip": zip_of(("z", zeros)),
        "b.tar.gz": gzip.compress(tar_of(("z", zeros))),
        "c.tar.xz": lzma.compress(tar_of(("z", zeros))),
        "d.zip": zip_of(*((f"m{i}.zip", zip_of(("z", zeros[: 400 << 10]))) for i in range(8))),
    }
    for name, content in small.items():
        put(tmp_path / "tree", name, content)
    found = walk(tmp_path / "tree")
    assert found.files == []
    assert [name for name, _ in found.refused] == sorted(small)
    for _, why in found.refused:
        assert "MiB, the limit" in why
        assert "unpack it yourself" in why


def test_a_sparse_member_counts_what_it_becomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_ALWAYS_BYTES", 1 << 20)
    header = tarfile.TarInfo("big")
    header.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"00000000000\0" + b"00000000000\0"
    block[483:495] = b"77777777777\0"  # 8 GiB when unpacked
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    put(tmp_path / "tree", "t.tar", bytes(block) + bytes(1024))
    [(name, why)] = walk(tmp_path / "tree").refused
    assert (name, "the limit" in why) == ("t.tar", True)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 50)
    content = tar_of(*((f"f{i}", b"x") for i in range(51)))
    put(tmp_path / "tree", "t.tar", content)
    [(_, why)] = walk(tmp_path / "tree").refused
    assert "more than 50 members, the limit" in why


def test_thousands_of_members(tmp_path: Path) -> None:
    put(tmp_path / "tree", "t.tar", tar_of(*((f"d/f{i:04}", b"x") for i in range(3000))))
    assert len(names(tmp_path / "tree")) == 3000


def test_a_header_that_claims_gigabytes_is_damage(tmp_path: Path) -> None:
    info = tarfile.TarInfo("p")
    info.type, info.size = tarfile.XHDTYPE, 7 << 30
    put(tmp_path / "tree", "t.tar", info.tobuf(tarfile.USTAR_FORMAT) + bytes(2048))
    [(_, why)] = walk(tmp_path / "tree").refused
    assert "cut short or damaged" in why


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_tar_that_is_cut_gives_the_members_before(
    tmp_path: Path, run_json: bytes, suffix: str
) -> None:
    noise = os.urandom(600_000)  # zstd gives whole blocks of 128 KiB
    whole = tar_of(("a/r.json", run_json), ("b/big.bin", noise), ("c/r.json", run_json))
    packed = PACKERS[suffix](whole)
    put(tmp_path / "tree", f"t.tar{suffix}", packed[: len(packed) * 6 // 10])
    found = walk(tmp_path / "tree")
    assert [f.relative for f in found.files] == [f"t.tar{suffix}/a/r.json"]
    reasons = dict(found.refused)
    assert "the 1 member before that is read" in reasons[f"t.tar{suffix}"]
    assert "cut short" in reasons[f"t.tar{suffix}/b/big.bin"]


def test_a_damaged_header_does_not_end_an_archive_quietly(tmp_path: Path) -> None:
    whole = bytearray(tar_of(("a", b"x"), ("b", b"y"), ("c", b"z")))
    whole[1024] ^= 0x55
    put(tmp_path / "tree", "t.tar", bytes(whole))
    put(tmp_path / "tree", "two.tar", tar_of(("a", b"x")) + tar_of(("b", b"x")))
    reasons = dict(walk(tmp_path / "tree").refused)
    assert set(reasons) == {"t.tar", "two.tar"}


def test_a_zip_without_its_end_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "tree", "t.zip", zip_of(("a", bytes(1000)), ("b", b"y"))[:-40])
    [(name, why)] = walk(tmp_path / "tree").refused
    assert (name, "copy it again" in why) == ("t.zip", True)


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


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), suffix=st.sampled_from(["", ".gz"]), zipped=st.booleans())
def test_damaged_archives_never_raise(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, suffix: str, zipped: bool
) -> None:
    of = zip_of if zipped else tar_of
    members = (("a/x.json", b"{}" * 300), ("b.json", b"[1]"), ("c", b"z"))
    packed = bytearray(PACKERS[suffix](of(*members)))
    for _ in range(data.draw(st.integers(1, 6))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    packed = packed[: data.draw(st.integers(len(packed) // 4, len(packed)))]
    folder = tmp_path_factory.mktemp("damaged")
    put(folder, "t.pack", bytes(packed))
    found = walk(folder)
    assert found.files or found.skipped or found.refused


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40))
def test_any_name_ends_inside_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = tmp_path_factory.mktemp("named")
    put(folder, "t.tar", tar_of((name, b"content")))
    found = walk(folder)
    inside = [f for f in found.files if f.path.is_relative_to(f.root / "t.tar")]
    assert len(inside) == len(found.files)
    assert len(inside) + len(found.skipped) + len(found.refused) <= 1
    if name.strip("/.") and not name.endswith("/"):
        assert len(inside) + len(found.skipped) + len(found.refused) == 1


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
