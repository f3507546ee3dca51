from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.read.discover import read_tree
from servebook.read.prompt_prefix import BLOCK, fingerprint, shared
from servebook.tables import Tables
from tests.read.samples import FIXTURES, record, write_json, write_lines

SYSTEM = "s" * (4 * BLOCK)


def chat(user: str, system: str = SYSTEM) -> dict[str, Any]:
    return {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "model": "m",
    }


def counts(*bodies: Any, warmup: int = 0) -> dict[str, int]:
    prints = [fingerprint(body) for body in bodies]
    return shared((i >= warmup, p) for i, p in enumerate(prints) if p is not None)


def run_of(tables: Tables) -> dict[str, Any]:
    (run,) = tables.runs.to_pylist()
    return {k: run[k] for k in ("n_prompts", "prompt_chars", "prompt_shared_chars")}


@pytest.mark.parametrize(
    ("bodies", "warmup", "expected"),
    [
        # the second shares the system prompt; the first of all shares with nobody
        ([chat("a" * 100), chat("b" * 100)], 0, (2, 2 * 356, 256)),
        # a warm-up prompt is not counted, but fills the cache
        ([chat("a" * 100), chat("b" * 100)], 1, (1, 356, 256)),
        # sent again word for word: all of it, the last short block included
        ([chat("a" * 100), chat("a" * 100)], 0, (2, 712, 356)),
        # a difference at the front shares nothing, whatever follows
        ([{"prompt": "x" + SYSTEM}, {"prompt": "y" + SYSTEM}], 0, (2, 514, 0)),
        # whole blocks only: 100 equal characters hold one
        ([{"prompt": "x" * 100}, {"prompt": "x" * 100 + "y" * 100}], 0, (2, 300, BLOCK)),
        # the same words of another role are another prompt
        (
            [
                {"input": [{"role": "user", "content": SYSTEM}]},
                {"input": [{"role": "system", "content": SYSTEM}]},
            ],
            0,
            (2, 512, 0),
        ),
        # text beside an image: the image ends the prefix where it differs
        (
            [
                {
                    "messages": [
                        {
                            "role": "user",
                            "content": [
                                {"type": "text", "text": SYSTEM},
                                {"type": "image_url", "image_url": {"url": url}},
                                {"type": "text", "text": SYSTEM},
                            ],
                        }
                    ]
                }
                for url in ("one", "two", "one")
            ],
            0,
            (3, 3 * 512, 256 + 512),
        ),
    ],
)
def test_what_counts_as_shared(
    bodies: list[Any], warmup: int, expected: tuple[int, int, int]
) -> None:
    names = ("n_prompts", "prompt_chars", "prompt_shared_chars")
    assert counts(*bodies, warmup=warmup) == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize(
    "body",
    [
        None,
        7,
        [],
        {},
        {"prompt": [1, 2, 3]},
        {"prompt": ["a", "b"]},
        {"messages": {"role": "user"}},
        {"messages": [None, 3]},
        {"messages": [{"role": "user", "content": None}]},
        {"input": [["a"]]},
    ],
)
def test_a_body_without_text_is_no_prompt(body: Any) -> None:
    assert fingerprint(body) is None
    assert counts(body) == {}


@given(st.lists(st.text(alphabet="ab", max_size=3 * BLOCK), min_size=1, max_size=8))
def test_shared_is_the_longest_common_prefix_in_whole_blocks(texts: list[str]) -> None:
    texts = [t for t in texts if t]
    expected = 0
    for i, text in enumerate(texts):
        best = 0
        for other in texts[:i]:
            common = next(
                (k for k, (x, y) in enumerate(zip(text, other, strict=False)) if x != y),
                min(len(text), len(other)),
            )
            whole = common if text == other else common // BLOCK * BLOCK
            best = max(best, whole)
        expected += best
    found = counts(*({"prompt": t} for t in texts))
    assert found.get("prompt_shared_chars", 0) == expected
    assert found.get("prompt_chars", 0) == sum(map(len, texts))


def test_a_real_run_with_one_system_prompt() -> None:
    """1,062 characters of 1,334 to 1,360 are shared; the server took 256 of 321 tokens."""
    folder = FIXTURES / "aiperf_shared_prefix"
    tables = read_tree(folder)
    inputs = json.loads((folder / "inputs.json").read_text())
    users = {s["session_id"]: s["payloads"][0]["messages"][1]["content"] for s in inputs["data"]}
    sent = [f"session_{n:06d}" for n in range(4, 10)]  # the first four were the warm-up
    assert run_of(tables) == {
        "n_prompts": 6,
        "prompt_chars": 6 * 1062 + sum(len(users[s]) for s in sent),
        "prompt_shared_chars": 6 * 1062,
    }
    cached = [
        (r["cached_tokens"], r["isl"])
        for r in tables.requests.to_pylist()
        if r["phase"] == "profiling"
    ]
    assert cached == [(256, 321)] * 6
    share = 6 * 1062 / run_of(tables)["prompt_chars"]
    assert share == pytest.approx(256 / 321, abs=0.02)  # characters beside tokens
    assert tables.refused.num_rows == tables.set_aside.num_rows == 0


def test_no_text_of_a_prompt_reaches_a_table() -> None:
    folder = FIXTURES / "aiperf_shared_prefix"
    inputs = json.loads((folder / "inputs.json").read_text())
    held = repr(
        [getattr(read_tree(folder), name).to_pylist() for name in ("runs", "requests", "gaps")]
    )
    for session in inputs["data"]:
        for message in session["payloads"][0]["messages"]:
            words = message["content"].split()
            assert not any(" ".join(words[i : i + 3]) in held for i in range(len(words) - 2))
        assert session["session_id"] not in held


def _named(n: int, session: str, turn: int = 0) -> dict[str, Any]:
    return record(n, metadata={"conversation_id": session, "turn_index": turn})


def test_prompts_are_taken_in_the_order_of_their_starts(tmp_path: Path) -> None:
    """Lines are written as requests end; b started first, so a shares with b."""
    write_lines(
        tmp_path / "profile_export.jsonl", _named(2, "a"), _named(1, "b"), _named(3, "a", 1)
    )
    sessions = [
        {"session_id": "a", "payloads": [{"prompt": SYSTEM + "a" * BLOCK}, {"prompt": "turn"}]},
        {"session_id": "b", "payloads": [{"prompt": SYSTEM}]},
        {"session_id": "never sent", "payloads": [{"prompt": SYSTEM * 9}]},
    ]
    write_json(tmp_path / "inputs.json", {"data": sessions})
    # the second turn may stand in the file without what came before it: not counted
    assert run_of(read_tree(tmp_path)) == {
        "n_prompts": 2,
        "prompt_chars": 5 * BLOCK + 4 * BLOCK,
        "prompt_shared_chars": 4 * BLOCK,
    }


def test_the_raw_export_says_what_was_sent(tmp_path: Path) -> None:
    sent = [_named(1, "a"), _named(2, "b", 1)]
    raw = [
        r | {"start_perf_ns": 1, "responses": [], "payload": {"prompt": SYSTEM + "x" * i}}
        for i, r in enumerate(sent)
    ]
    write_lines(tmp_path / "profile_export.jsonl", *sent)
    write_lines(tmp_path / "profile_export_raw.jsonl", *raw, b'{"metadata": {"x_requ')
    assert run_of(read_tree(tmp_path)) == {
        "n_prompts": 2,
        "prompt_chars": 2 * 256 + 1,
        "prompt_shared_chars": 256,
    }


@pytest.mark.parametrize(
    "content",
    [
        b'{"data": [{"session_id": "a", "payloads": [{"prompt": "cut',
        b'{"data": [{"session_id": "a", "payloads": 7}, 3, {"session_id": 4}]}',
        b'{"data": [{"session_id": "other", "payloads": [{"prompt": "text"}]}]}',
    ],
)
def test_inputs_that_tell_nothing_leave_the_columns_empty(tmp_path: Path, content: bytes) -> None:
    write_lines(tmp_path / "profile_export.jsonl", _named(1, "a"))
    (tmp_path / "inputs.json").write_bytes(content)
    tables = read_tree(tmp_path)
    assert set(run_of(tables).values()) == {None}
    assert tables.requests.num_rows == 1
    torn = content.endswith(b"cut")
    assert [r["path"] for r in tables.set_aside.to_pylist()] == (["inputs.json"] if torn else [])


@pytest.mark.parametrize(
    "content",
    [
        (FIXTURES / "aiperf_shared_prefix" / "inputs.json").read_bytes(),
        b'{"data": [{"session_id": "a", "payloads": [{"prompt": "cut',
        b'{"data": [{"session_id": "a", "payloads": 7}, 3, {"session_id": 4}]}',
        b'{"data": [{"session_id": "a", "payloads": [{"prompt": "text"}, 7]}, {"payloads": []}]}',
        b'{"data": 7, "more": 8}',
        b"[]",
        b"{} {}",
        b"",
    ],
)
def test_large_inputs_are_read_session_by_session(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = (FIXTURES / "aiperf_shared_prefix" / "profile_export.jsonl").read_bytes()
    (tmp_path / "inputs.json").write_bytes(content)
    for lines in (shipped, json.dumps(_named(1, "a")).encode() + b"\n"):
        (tmp_path / "profile_export.jsonl").write_bytes(lines)
        small = read_tree(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr("servebook.read.aiperf.LARGE_INPUTS_BYTES", -1)
            large = read_tree(tmp_path)
        assert run_of(large) == run_of(small)
        aside = [(row["path"], row["record"]) for row in small.set_aside.to_pylist()]
        assert [(row["path"], row["record"]) for row in large.set_aside.to_pylist()] == aside
