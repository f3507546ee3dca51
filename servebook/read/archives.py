"""Archives as folders: tar (plain or compressed) and zip, unpacked into a private scratch folder.

What lies in ``runs.tar.gz`` gets the relative path ``runs.tar.gz/<member>`` below a root that
mirrors the inspected folder, so that readers see ordinary files. The scratch folder belongs to
this process and goes when it ends. The standard library opens the archives; the rules of what may
come out are here:

- no member leaves the folder: absolute names and ``..`` are refused, links are never made;
- ``MAX_MEMBERS``, ``MAX_BYTES`` and ``MAX_RATIO`` bound what one archive may become, archives
  inside it included, of which ``MAX_DEPTH`` levels are opened;
- each member ends as a file, as skipped, or as refused with a reason.
"""

from __future__ import annotations

import atexit
import os
import posixpath
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from servebook.read.archive_members import DAMAGED_ARCHIVE, Member, is_tar, is_zip, members
from servebook.read.codecs import DAMAGED, open_unpacked
from servebook.read.scratch import PREFIX, sweep

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_MEMBERS",
    "MAX_RATIO",
    "Unpacked",
    "is_archive",
    "unpack",
    "unpacked_here",
]

MAX_MEMBERS = 100_000
MAX_BYTES = 8 << 30
#: Real dumps shrink by 5 to 50; small archives may become this much in any case.
MAX_RATIO = 500
_ALWAYS_BYTES = 256 << 20
MAX_DEPTH = 3

_PIECE = 1 << 20
_HEAD = 8192
_MAX_NAME, _MAX_PATH = 255, 3000
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_UNPACK = "unpack it yourself and give the folder"


@dataclass
class Unpacked:
    """What came out of an archive: files below ``root``, names skipped, and refusals."""

    root: Path
    files: list[Path] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


class _LimitError(Exception):
    """An archive that would become more than it may."""


@dataclass
class _Job:
    """One archive of the tree on its way out, with what it may still become."""

    out: Unpacked
    work: Path
    left: int
    limit: str
    members: int = 0


_known: dict[tuple[object, ...], Unpacked] = {}
_places: dict[int, Path] = {}


def is_archive(start: bytes) -> bool:
    """Whether a file whose unpacked content begins so is a tar or zip archive."""
    return is_zip(start) or is_tar(start)


def unpack(path: Path, top: str, below: str) -> Unpacked:
    """The members of the archive at ``path`` as files; a second call gives the same answer.

    ``top`` is the name of the inspected folder and ``below`` the archive's path in it: members
    become ``Unpacked.root / below / member``, and ``root`` is called ``top``. Names in ``skipped``
    and ``refused`` are relative to ``root``.
    """
    status = path.stat()
    key = (path, top, below, status.st_ino, status.st_size, status.st_mtime_ns, os.getpid())
    if key not in _known:
        _known[key] = _unpack(path, status.st_size, top, below)
    return _known[key]


def _unpack(path: Path, size: int, top: str, below: str) -> Unpacked:
    work = Path(tempfile.mkdtemp(dir=_scratch()))
    root = work / "tree" / (top or "root")
    root.mkdir(parents=True)
    most = min(MAX_BYTES, max(_ALWAYS_BYTES, MAX_RATIO * size))
    limit = f"{most >> 20:,} MiB, the limit for an archive of this size"
    job = _Job(Unpacked(root), work, most, limit)
    try:
        _open(job, path, root / below, 1)
    except _LimitError as error:
        shutil.rmtree(work, ignore_errors=True)
        job.out = Unpacked(root, refused=[(below or top, f"{error}; {_UNPACK}")])
    except OSError as error:
        shutil.rmtree(work, ignore_errors=True)
        why = f"could not be unpacked ({error.strerror}); make room, or set TMPDIR to a larger disk"
        job.out = Unpacked(root, refused=[(below or top, why)])
    job.out.files.sort(key=os.fsencode)
    return job.out


def _open(job: _Job, path: Path, folder: Path, depth: int) -> None:
    """All members of one archive; one that is damaged gives those before the damage."""
    folder.mkdir(parents=True, exist_ok=True)
    whole, damage = _plain(job, path)
    seen: dict[tuple[str, ...], Path] = {}
    try:
        for member in members(whole):
            job.members += 1
            if job.members > MAX_MEMBERS:
                raise _LimitError(f"holds more than {MAX_MEMBERS:,} members, the limit")
            _place(job, member, folder, seen, depth)
    except DAMAGED_ARCHIVE as error:
        damage = damage or str(error) or "damaged"
    finally:
        if whole != path:
            whole.unlink()
    if damage:
        many = "1 member before that is" if len(seen) == 1 else f"{len(seen):,} members before are"
        kept = f"; the {many} read" if seen else ""
        reason = f"an archive that is cut short or damaged{kept}; copy it again"
        job.out.refused.append((_name(job, folder), reason))


def _plain(job: _Job, path: Path) -> tuple[Path, str]:
    """The archive without compression (a file of our own where it has one), and its damage."""
    stream = open_unpacked(path)
    if stream is None:
        return path, ""
    handle, name = tempfile.mkstemp(dir=job.work)
    damage = ""
    with stream, os.fdopen(handle, "wb") as target:
        try:
            _copy(job, stream, target, count=False)
        except DAMAGED:
            damage = "compression"
    return Path(name), damage


def _copy(job: _Job, source: BinaryIO, target: BinaryIO, *, count: bool = True) -> None:
    written = 0
    # ``read1`` gives what a damaged stream holds before the damage; a tar's members lack it.
    read = getattr(source, "read1", source.read)
    while piece := read(_PIECE):
        written += len(piece)
        # What a compressed archive becomes on the way is bounded too, but its members count.
        if written > job.left + (0 if count else _PIECE + _ALWAYS_BYTES // 8):
            raise _LimitError(f"unpacks to more than {job.limit}")
        target.write(piece)
    if count:
        job.left -= written


def _place(
    job: _Job, member: Member, folder: Path, seen: dict[tuple[str, ...], Path], depth: int
) -> None:
    parts = _parts(member.name)
    shown = f"{_name(job, folder)}/{_shown(member.name)}".removeprefix("./")
    if isinstance(parts, str):
        job.out.refused.append((shown, parts))
        return
    if member.refusal or not parts:
        if member.refusal:
            job.out.refused.append((shown, member.refusal))
        return
    if member.link is not None:
        _link(job, member, parts, shown)
        return
    if any(part.startswith(("_", ".")) for part in parts):
        job.out.skipped.append(shown)
        return
    target = folder.joinpath(*parts)
    if parts in seen:
        gone = seen[parts]
        job.out.files = [f for f in job.out.files if f != gone and gone not in f.parents]
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        job.out.refused.append((shown, "a member that comes again later; the last one counts"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out, member.open() as stream:
            _copy(job, stream, out)
    except (FileExistsError, NotADirectoryError):
        job.out.refused.append((shown, "a member in the place of another one; " + _UNPACK))
        return
    except DAMAGED_ARCHIVE:
        target.unlink(missing_ok=True)
        reason = "a member that is cut short or damaged; copy the archive again"
        job.out.refused.append((shown, reason))
        if member.last_if_damaged:
            raise
        return
    seen[parts] = target
    _keep(job, target, shown, depth)


def _keep(job: _Job, target: Path, shown: str, depth: int) -> None:
    """A member as a file, or as a folder where it is an archive itself."""
    if not is_archive(_start(target)):
        job.out.files.append(target)
    elif depth == MAX_DEPTH:
        reason = f"an archive inside {MAX_DEPTH} others, one more than are opened; {_UNPACK}"
        job.out.refused.append((shown, reason))
    else:
        inner = Path(tempfile.mkdtemp(dir=job.work)) / "archive"
        target.rename(inner)
        _open(job, inner, target, depth + 1)
        inner.unlink()


def _start(path: Path) -> bytes:
    try:
        with open_unpacked(path) or path.open("rb") as stream:
            return stream.read(_HEAD)
    except DAMAGED:
        return b""


def _link(job: _Job, member: Member, parts: tuple[str, ...], shown: str) -> None:
    base = parts[:-1] if member.symbolic else ()  # a hard link counts from the archive's top
    inside = posixpath.normpath(posixpath.join(*base, member.link or ""))
    if inside.startswith(("/", "../")) or inside == "..":
        reason = "a link out of the archive; put its target in"
        job.out.refused.append((shown, reason))
    else:
        job.out.skipped.append(shown)


def _parts(name: str) -> tuple[str, ...] | str:
    """The folders and the name of a member, or why it may have no place."""
    if name.startswith("/") or _DRIVE.match(name):
        return "a member with an absolute name; make the archive again with relative names"
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        return "a member that would climb out of the archive (`..`); make the archive again"
    if any(len(os.fsencode(p)) > _MAX_NAME for p in parts) or len(os.fsencode(name)) > _MAX_PATH:
        return f"a member whose name has more than {_MAX_NAME} bytes; rename it"
    if "\0" in name:
        return "a member whose name holds a zero byte; make the archive again"
    return parts


def _shown(name: str) -> str:
    text = os.fsencode(name[:_MAX_PATH]).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _name(job: _Job, folder: Path) -> str:
    return _shown(folder.relative_to(job.out.root).as_posix())


def _scratch() -> Path:
    """A folder of this process alone; a forked child gets another and removes only its own."""
    pid = os.getpid()
    if pid not in _places:
        place = Path(tempfile.gettempdir()).resolve()
        sweep(place)
        _places[pid] = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{pid}-", dir=place))
        atexit.register(_remove, pid)
    return _places[pid]


def unpacked_here(root: Path) -> bool:
    """Whether what lies at ``root`` came out of an archive and is there for this process alone."""
    return any(place in root.parents for place in _places.values())


def _remove(pid: int) -> None:
    if pid == os.getpid():
        shutil.rmtree(_places[pid], ignore_errors=True)
