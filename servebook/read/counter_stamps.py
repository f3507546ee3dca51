"""Where counter texts get their times: `### <epoch>` separators, and file names.

A text from a command line carries no time of its own. Two habits supply one: a loop that prints
``### <epoch> [ISO time]`` before each reading, and files named after the moment they were taken
(``metrics_1795973865157.prom``). A text with neither is refused by its reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import BufferedReader
from pathlib import Path

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.files import lines, open_bytes
from servebook.read.source import File, Source
from servebook.read.times import epoch_ns, iso_ns

__all__ = [
    "LONGEST_TEXT_LINE",
    "Block",
    "blocks",
    "ends_whole",
    "find_texts",
    "name_ns",
    "no_time",
]

_NAME_EPOCH = re.compile(r"(?<!\d)(\d{10}|\d{13}|\d{16}|\d{19})(?!\d)")
_NAME_ISO = re.compile(r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)T(\d\d)[-:]?(\d\d)[-:]?(\d\d)Z")
_SEPARATOR = "###"
#: What a line of a command's text or of a page of metrics does not exceed, in bytes.
LONGEST_TEXT_LINE = 4_000


def name_ns(path: Path) -> tuple[int, int] | None:
    """The time in a file's name as (ns, ns of its last digit), or None."""
    if match := _NAME_EPOCH.search(path.name):
        try:
            return epoch_ns(match[1])
        except ValueError:
            return None
    if match := _NAME_ISO.search(path.name):
        try:
            moment = datetime.strptime("".join(match.groups()) + "Z", "%Y%m%d%H%M%S%z")
        except ValueError:
            return None
        return int(moment.timestamp()) * 10**9, 10**9
    return None


@dataclass
class Block:
    """One reading of a text: its time, what is known about that, and its numbered lines.

    ``words`` are those of its separator beside the time, such as the name of an interface.
    """

    path: Path
    ts_ns: int
    stamp: int
    line: int
    lines: list[tuple[int, str]] = field(default_factory=list)
    words: tuple[str, ...] = ()


def find_texts(name: str, files: Sequence[File], mine: Callable[[bytes], bool]) -> list[Source]:
    """Sources among the files whose head is ``mine``.

    A log with separators is a source of its own; files of one folder whose names differ in their
    time only are one series, in the order of their names; any other file is a source that its
    reader refuses.
    """
    sources: list[Source] = []
    series: dict[tuple[Path, str], list[File]] = {}
    for file in files:
        if not mine(file.head):
            continue
        if name_ns(file.path) and not _has_separator(file.head):
            stem = _NAME_ISO.sub("#", _NAME_EPOCH.sub("#", file.path.name))
            series.setdefault((file.path.parent, stem), []).append(file)
        else:
            sources.append(Source(name, file.root, file.path, (file.path,)))
    for group in series.values():
        paths = tuple(sorted(file.path for file in group))
        sources.append(Source(name, group[0].root, paths[0], paths))
    return sorted(sources, key=lambda source: source.main)


def _has_separator(head: bytes) -> bool:
    return head.startswith(b"### ") or b"\n### " in head


def blocks(
    rows: Rows, what: str, *, own_times: bool = False, longest: int | None = None
) -> Iterator[Block]:
    """The readings of a source, file by file; marks a torn last line in ``rows``.

    Lines below a separator without a time are set aside, one row per block. Raises DumpError
    where a file has neither separators nor a time in its name; with ``own_times``, where its lines
    may carry one each, its block has the time 0 instead. Lines above ``longest`` bytes are set
    aside: no text of a command has them, and looking for a pattern in one takes long.
    """
    for path in rows.source.files or (rows.source.main,):
        current: Block | None = None
        last = 0
        for last, raw in lines(path):
            if longest is not None and len(raw) > longest and not raw.startswith(b"###"):
                rows.aside_once("lines", f"longer than {longest:,} bytes", last, path)
                continue
            text = raw.decode("utf-8", "replace")
            if text.startswith(_SEPARATOR):
                if current is not None and current.stamp >= 0:
                    yield current
                current = _open(rows, path, text, last)
            else:
                if current is None and text.strip():
                    current = _whole_file(rows, path, what, own_times)
                if current is not None:
                    current.lines.append((last, text))
        if not ends_whole(path):
            rows.torn(last, path)
        if current is not None and current.stamp >= 0:
            yield current


def ends_whole(path: Path) -> bool:
    """True where the content of ``path`` is empty or ends with a line end."""
    tail = b"\n"
    with open_bytes(path) as stream:
        if type(stream) is BufferedReader:
            stream.seek(max(0, path.stat().st_size - 1))
        while chunk := stream.read(1 << 20):
            tail = chunk
    return tail.endswith((b"\n", b"\r"))


def _open(rows: Rows, path: Path, text: str, line: int) -> Block:
    words = text[len(_SEPARATOR) :].split()
    for read in (epoch_ns, iso_ns):
        for word in words:
            try:
                ns, step = read(word)
            except ValueError:
                continue
            rest = tuple(w for w in words if w != word and not _is_time(w))
            return Block(path, ns, rows.stamp("collector", step, path), line, words=rest)
    rows.aside("block", "a separator without a time, so its readings have no place", line, path)
    return Block(path, 0, -1, line)


def _is_time(word: str) -> bool:
    for read in (epoch_ns, datetime.fromisoformat):
        try:
            read(word)
        except ValueError:
            continue
        return True
    return False


def _whole_file(rows: Rows, path: Path, what: str, own_times: bool) -> Block:
    named = name_ns(path)
    if named is None and own_times:
        return Block(path, 0, rows.stamp("device", None, path), 0)
    if named is None:
        raise no_time(rows.where(path), what)
    return Block(path, named[0], rows.stamp("filename", named[1], path), 0)


def no_time(where: str, what: str) -> DumpError:
    """The refusal of a text whose readings have no time."""
    return DumpError(
        where,
        f"{what} with the time of each reading",
        "no time: no `### <epoch>` lines and no epoch time in the file's name",
        "put `### $(date +%s.%N)` before each reading, or name the file after its time "
        "(metrics_<epoch ms>.prom)",
    )
