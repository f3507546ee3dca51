from __future__ import annotations

import gzip
import io
import lzma
import os
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servebook.read import archives
from servebook.read.discover import discover
from servebook.read.files import walk
from tests.read.archive_samples import PACKERS, names, put, tar_of, zip_of
from tests.read.samples import vllm_result, write_json


@pytest.fixture
def run_json(tmp_path: Path) -> bytes:
    write_json(tmp_path / "made" / "r.json", vllm_result())
    return (tmp_path / "made" / "r.json").read_bytes()


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
