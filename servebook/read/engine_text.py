"""Reader of ``/metrics`` pages of serving engines: a page per time, or a log of them.

Written by: vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp, LMDeploy (names in ``engine_names``); the
log by a loop that prints ``### <epoch>`` before each page.
Specified in: https://prometheus.io/docs/instrumenting/exposition_formats/ and by each engine.
Cannot tell: which engine of several it was, unless a label says so, and, in a page, when it was
taken: that comes from the ``###`` line or the file's name (``metrics_<epoch ms>.prom``).
"""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from servebook.read.counter_rows import Rows, number
from servebook.read.counter_stamps import Block, blocks, find_texts, no_time
from servebook.read.engine_names import ENGINES, meaning, mentions
from servebook.read.engine_rows import EngineRows
from servebook.read.source import File, Format, Source
from servebook.read.times import epoch_ns
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "engine-text"
_WHAT = "a page of an engine's metrics"
_STARTS = (b"# HELP", b"# TYPE", b"### ", b"python_", b"process_", *ENGINES)


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; pages named after their time as one series per folder."""
    return find_texts(_NAME, files, _mine)


def _mine(head: bytes) -> bool:
    # A page that holds a network card's counters too is left to their readers.
    return head.lstrip().startswith(_STARTS) and b"\nnode_network_" not in head and mentions(head)


def read(source: Source) -> Tables:
    """Table ``engine`` of all pages or blocks; raises DumpError where there is no time."""
    stamps = Rows(source)
    rows = EngineRows(source)
    known: dict[str, tuple[str, dict[str, str]] | None] = {}
    timed = False
    for block in blocks(stamps, _WHAT, own_times=True):
        timed = timed or block.ts_ns > 0
        for line, text in block.lines:
            if not text or text[0] in "# ":
                continue
            if stamps.is_torn(line, block.path):
                rows.aside("sample", "the file ends inside this line", line, block.path)
                continue
            timed = _line(rows, known, block, line, text) or timed
    if not timed:
        raise no_time(stamps.where(), _WHAT)
    return Tables.concat([rows.tables(), Tables(set_aside=stamps.tables().set_aside)])


FORMAT = Format(_NAME, "engine", find, read)


def _line(
    rows: EngineRows,
    known: dict[str, tuple[str, dict[str, str]] | None],
    block: Block,
    line: int,
    text: str,
) -> bool:
    """Adds one sample; True where it brought its own time."""
    end = text.rfind("}") + 1 or len(text.split(maxsplit=1)[0])
    head, tail = text[:end], text[end:].split()
    if head not in known:
        known[head] = _series(head)
    found = known[head]
    if found is None:
        if "{" in text and meaning(text.partition("{")[0], {}) and not _whole(head):
            rows.aside_once("sample", "no sample of the exposition format", line, block.path)
        return False
    try:
        if not 1 <= len(tail) <= 2:
            raise ValueError("no sample of the exposition format")
        at, kind = block.ts_ns, "collector" if block.line else "filename"
        if len(tail) == 2:
            at, kind = epoch_ns(tail[1])[0], "device"
        elif not at:
            rows.aside_once(found[0], "no time, neither its own nor the page's", line, block.path)
            return False
        value = number(tail[0])
    except ValueError as error:
        rows.aside_once(found[0], str(error), line, block.path)
        return False
    rows.add(*found, value, start_ns=at, ts_kind=kind, line=line, path=block.path)
    return len(tail) == 2


def _whole(head: str) -> bool:
    """Whether the maintained parser takes a series for one."""
    try:
        return len(list(text_string_to_metric_families(f"{head} 0\n"))) == 1
    except ValueError:
        return False


def _series(head: str) -> tuple[str, dict[str, str]] | None:
    """Name and labels of a series that is read, by the maintained parser; None for any other."""
    name = head.partition("{")[0].strip()
    if not mentions(name.encode("utf-8", "replace")):
        return None
    try:
        [family] = text_string_to_metric_families(f"{head} 0\n")
        [sample] = family.samples
    except ValueError:
        return None
    labels = dict(sample.labels)
    return (name, labels) if meaning(name, labels) else None
