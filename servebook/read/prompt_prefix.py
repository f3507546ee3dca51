"""How much of the prompts was sent before: shared prefixes, counted without keeping any text.

- Written by AIPerf: ``inputs.json`` (sessions with their request bodies) and
  ``profile_export_raw.jsonl`` (the body that each request sent, ``--export-level raw``).
- Specified in AIPerf's documentation of its inputs file and its raw export.
- It cannot tell: tokens, for a dump holds no tokenizer, so characters are counted; what a server
  did with a shared prefix. Of a conversation's later turns ``inputs.json`` may hold the turn
  alone, so only first turns are taken from it.

Prompts are compared by a running hash over blocks of ``BLOCK`` characters, about the 16 tokens
that an engine's cache block holds. Hashes live as long as the reading; only counts leave.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from servebook.errors import DumpError
from servebook.read.files import loads
from servebook.read.json_inside import objects_inside

__all__ = [
    "BLOCK",
    "Prompt",
    "Sent",
    "SentColumns",
    "bodies_of_inputs",
    "bodies_of_raw",
    "fingerprint",
    "shared",
]

BLOCK = 64  # characters
_HASH_BYTES = 8
_ROWS = 1 << 16  # that become objects at once


@dataclass(frozen=True)
class Sent:
    """One request as its record names it; ``counted`` is false for warm-up."""

    start_ns: int
    counted: bool
    session: str
    turn: int


class SentColumns(Mapping[str, Sent]):
    """Requests by id, held as columns: a dump of short requests has millions of them.

    ``table``: request_id (each once), start_ns, counted, session (a dictionary), turn; none null.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table.unify_dictionaries()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[str]:
        for batch in self._table.to_batches(_ROWS):
            yield from batch["request_id"].to_pylist()

    def __getitem__(self, name: str) -> Sent:
        row = self._table.slice(self._places[name], 1).to_pylist()[0]
        del row["request_id"]
        return Sent(**row)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self)}

    def first_turns(self, sessions: Container[str]) -> Iterator[Sent]:
        """Those that begin one of ``sessions``, in the order of their starts."""
        columns = self._table.drop_columns(["request_id"])
        session = columns["session"].combine_chunks()
        names = session.dictionary.to_pylist()
        code = session.indices.to_numpy()
        order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        wanted = np.array([name in sessions for name in names], bool)
        rows = np.flatnonzero((columns["turn"].to_numpy() == 0) & wanted[code])
        start = columns["start_ns"].to_numpy()[rows]
        rows = rows[np.lexsort((rank[code[rows]], start))]
        for at in range(0, len(rows), _ROWS):
            for row in columns.take(pa.array(rows[at : at + _ROWS])).to_pylist():
                yield Sent(**row)


@dataclass(frozen=True)
class Prompt:
    """A prompt's running hashes and the characters of each block; holds no text."""

    hashes: array[int]  # 64 bits each; a hash covers all blocks up to its own
    chars: array[int]


def fingerprint(body: Any) -> Prompt | None:
    """The prompt of a request body (chat, completions or responses); None where it has no text."""
    texts = list(_texts(body))
    running = hashlib.blake2b(digest_size=_HASH_BYTES)
    out = Prompt(array("Q"), array("L"))
    for role, text in texts:
        running.update(b"\0" + role.encode("utf-8", "surrogatepass") + b"\0")
        for at in range(0, len(text), BLOCK):
            block = text[at : at + BLOCK]
            running.update(block.encode("utf-8", "surrogatepass"))
            out.hashes.append(int.from_bytes(running.copy().digest(), "big"))
            out.chars.append(len(block))
    return out if out.chars else None


def _texts(body: Any) -> Iterator[tuple[str, str]]:
    """(role, text) in the order in which they are sent; what is no text ends a shared prefix."""
    if not isinstance(body, dict):
        return
    prompt = next((body[k] for k in ("messages", "prompt", "input") if body.get(k)), None)
    if isinstance(prompt, str):
        yield "", prompt
    if body.get("messages") is not prompt and "input" not in body:
        return  # a list of prompts or of token ids is no conversation
    for message in prompt if isinstance(prompt, list) else []:
        if not isinstance(message, dict):
            return
        role, content = str(message.get("role")), message.get("content")
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                yield role, text
            elif part is not None:  # an image, say: compared, but it has no characters
                yield f"{role}\0{_digest(part)}", ""


def _digest(value: Any) -> str:
    """A digest of any JSON value."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=_HASH_BYTES).hexdigest()


def shared(prompts: Iterable[tuple[bool, Prompt]]) -> dict[str, int]:
    """Columns of ``runs``: n_prompts, prompt_chars and prompt_shared_chars of the counted ones.

    ``prompts`` come in the order of their starts, warm-up included, for it fills a cache too. A
    character is shared where all of the prompt up to its block began an earlier prompt. Empty
    where nothing was counted.
    """
    seen: set[int] = set()
    n = chars = common = 0
    for counted, prompt in prompts:
        if counted:
            n += 1
            chars += sum(prompt.chars)
            for value, size in zip(prompt.hashes, prompt.chars, strict=True):
                if value not in seen:
                    break
                common += size
        seen.update(prompt.hashes)
    if not n:
        return {}
    return {"n_prompts": n, "prompt_chars": chars, "prompt_shared_chars": common}


def bodies_of_inputs(
    inputs: Mapping[str, Any], sent: Mapping[str, Sent]
) -> Iterator[tuple[bool, Prompt]]:
    """The prompts that ``sent`` names in ``inputs.json``, in the order of their starts."""
    data = inputs.get("data")
    first: dict[str, Any] = {}
    for session in data if isinstance(data, list) else []:
        bodies = session.get("payloads") if isinstance(session, dict) else None
        if isinstance(bodies, list) and bodies:
            first.setdefault(str(session.get("session_id")), bodies[0])
    known: dict[str, Prompt | None] = {}
    if isinstance(sent, SentColumns):
        requests = sent.first_turns(first)
    else:
        chosen = [one for one in sent.values() if not one.turn and one.session in first]
        requests = iter(sorted(chosen, key=lambda s: (s.start_ns, s.session)))
    for request in requests:
        if request.session not in known:
            body = first[request.session]
            known[request.session] = body if isinstance(body, Prompt) else fingerprint(body)
        prompt = known[request.session]
        if prompt is not None:
            yield request.counted, prompt


def large_inputs(path: Path) -> Any:
    """What ``inputs.json`` holds, of each session its id and the fingerprint of its first prompt.

    A file of prompts as long as a book each is no tree in memory that way. Raises ValueError for
    what is not one JSON value, and DumpError for a file that cannot be read.
    """

    def light(session: Any) -> Any:
        bodies = session.get("payloads") if isinstance(session, dict) else None
        if not isinstance(bodies, list) or not bodies:
            return {}
        return {"session_id": session.get("session_id"), "payloads": [fingerprint(bodies[0])]}

    found = list(objects_inside(path, {("data",): light}))
    if len(found) != 1 or found[0][2] is not None:
        raise ValueError(next((why for *_, why in found if why), f"{len(found)} values"))
    return found[0][1]


def bodies_of_raw(
    raw: Iterable[tuple[int, bytes]], sent: Mapping[str, Sent]
) -> Iterator[tuple[bool, Prompt]]:
    """The prompts of raw lines whose request is in ``sent`` (by its id), in order of starts.

    A damaged line is passed over: the records name what was lost.
    """
    found: dict[str, Prompt] = {}
    try:
        for _, line in raw:
            try:
                record = loads(line)
            except ValueError:
                continue
            about = record.get("metadata") if isinstance(record, dict) else None
            name = str(about.get("x_request_id")) if isinstance(about, dict) else ""
            if name not in sent or name in found:
                continue
            prompt = fingerprint(record.get("payload"))
            if prompt is not None:
                found[name] = prompt
    except DumpError:
        pass  # the end of a cut stream; what came before it counts
    for name in sorted(found, key=lambda n: (sent[n].start_ns, n)):
        yield sent[name].counted, found[name]
