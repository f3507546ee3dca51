from __future__ import annotations

import pytest

from servebook.read.manifest_pattern import (
    COUNTER_FIELDS,
    RUN_FIELDS,
    PatternError,
    compile_pattern,
)


@pytest.mark.parametrize(
    ("pattern", "path", "fields"),
    [
        ("raw/mixed_c{concurrency}*", "raw/mixed_c16_repeat2", {"concurrency": "16"}),
        ("raw/mixed_c{concurrency}", "raw/mixed_c16_repeat2", None),
        ("raw/mixed_c{concurrency}/", "raw/mixed_c16", {"concurrency": "16"}),
        ("raw/*/c{concurrency}", "raw/a/b/c4", None),
        ("raw/**/c{concurrency}", "raw/a/b/c4", {"concurrency": "4"}),
        ("raw/**/c{concurrency}", "raw/c4", {"concurrency": "4"}),
        ("raw/**", "raw/a/b", {}),
        ("raw/r?.json", "raw/r1.json", {}),
        ("raw/r?.json", "raw/r12.json", None),
        ("raw/[1].json", "raw/[1].json", {}),
        ("a.b", "axb", None),
        (
            "{configuration}/{workload}/isl{isl}_osl{osl}_r{request_rate}",
            "two-nodes/decode/isl16_osl256_r2.5",
            {
                "configuration": "two-nodes",
                "workload": "decode",
                "isl": "16",
                "osl": "256",
                "request_rate": "2.5",
            },
        ),
        ("{workload}_c1", "warm_c1", None),
    ],
)
def test_patterns(pattern: str, path: str, fields: dict[str, str] | None) -> None:
    assert compile_pattern(pattern, RUN_FIELDS).match(path) == fields


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "empty"),
        ("/etc/x", "relative"),
        ("~/x", "relative"),
        ("C:/x", "relative"),
        ("a\\b", "relative"),
        ("../x", "inside the campaign folder"),
        ("a/../../x", "inside the campaign folder"),
        ("c{concurency}", "did you mean `concurrency`?"),
        ("c{concurrency}_{concurrency}", "once"),
        ("c{concurrency", "close the brace"),
        ("a/" + "*x" * 4, "wildcards"),
        ("**/a/**/b/**", "wildcards"),
        ("a" * 1001, "1000 characters"),
    ],
)
def test_patterns_that_are_refused(pattern: str, words: str) -> None:
    with pytest.raises(PatternError, match=words.replace("?", r"\?")):
        compile_pattern(pattern, RUN_FIELDS)


def test_a_hostile_name_does_not_hang_a_pattern() -> None:
    assert compile_pattern("*a*a*ab", RUN_FIELDS).match("a" * 255) is None


def test_counters_have_fields_of_their_own() -> None:
    found = compile_pattern("{device}_{interface}.csv", COUNTER_FIELDS).match("leaf1_eth0.csv")
    assert found == {"device": "leaf1", "interface": "eth0"}
