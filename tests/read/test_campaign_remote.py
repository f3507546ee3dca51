from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from servebook.errors import DumpError, ManifestError
from servebook.publish.fresh import ingredients
from servebook.read.campaign import load
from servebook.read.campaign_remote import _split, mirrors_of
from tests.read.samples import record, write_lines

HEAD = """servebook: 1
name: here
provenance: measured
configurations: {a: {gpu: B300, gpus: 8, nodes: 1, tp: 8}}
"""


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SERVEBOOK_ORIGINS", "{}")
    system = fsspec.filesystem("memory")
    system.store.clear()
    for run in (1, 2):
        text = "".join(json.dumps(record(n + 10 * run)) + "\n" for n in range(3))
        system.pipe(f"/bucket/runs/c{run}/profile_export.jsonl", text.encode())
    yield system
    system.store.clear()


def campaign(folder: Path, manifest: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "campaign.yaml").write_text(HEAD + manifest)
    return folder


RUNS = "runs: [{match: 'memory://bucket/runs/c{concurrency}', configuration: a}]\n"


@pytest.mark.usefixtures("bucket")
def test_runs_of_a_url_are_those_of_a_folder_of_its_name(tmp_path: Path) -> None:
    for run in (1, 2):
        lines = [record(n + 10 * run) for n in range(3)]
        write_lines(tmp_path / "local" / "runs" / f"c{run}" / "profile_export.jsonl", *lines)
    (tmp_path / "local" / "campaign.yaml").write_text(HEAD + RUNS.replace("memory://bucket/", ""))
    here = load(tmp_path / "local")
    there = load(campaign(tmp_path / "named", RUNS))
    assert there.tables == here.tables
    assert there.tables.runs["run_id"].to_pylist() == ["runs/c1", "runs/c2"]
    assert there.tables.runs["concurrency"].to_pylist() == [1, 2]
    assert there.findings == here.findings
    kept = there.inputs.to_pylist()
    assert kept[1:] == here.inputs.to_pylist()[1:]  # the manifests differ
    assert not any("memory" in row["path"] or "bucket" in row["path"] for row in kept)


def test_a_page_hangs_on_what_lies_at_the_url(bucket: Any, tmp_path: Path) -> None:
    root = campaign(tmp_path / "named", RUNS)
    (tmp_path / "notebooks").mkdir()
    first = ingredients(root, tmp_path, tmp_path / "notebooks").campaign
    assert ingredients(root, tmp_path, tmp_path / "notebooks").campaign == first
    bucket.pipe("/bucket/runs/c3/profile_export.jsonl", json.dumps(record()).encode())
    assert ingredients(root, tmp_path, tmp_path / "notebooks").campaign != first
    assert len(mirrors_of(root)) == 1
    assert mirrors_of(tmp_path / "nowhere") == []


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("memory://*", "campaign.yaml:6: expected a URL that names at least a bucket or a host"),
        ("memory://other/runs/*", "campaign.yaml:7: expected URLs that end in names of their own"),
    ],
)
def test_urls_that_cannot_be_told_apart_are_told(entry: str, words: str, tmp_path: Path) -> None:
    lines = f"  - {{match: '{entry}', configuration: a}}\n"
    second = "  - {match: 'memory://bucket/runs/c{concurrency}', configuration: a}\n"
    root = campaign(tmp_path / "c", f"runs:\n{lines}{second}")
    with pytest.raises(ManifestError, match=words):
        load(root)


@pytest.mark.usefixtures("bucket")
def test_nothing_at_the_url_is_told(tmp_path: Path) -> None:
    root = campaign(tmp_path / "c", RUNS.replace("bucket", "nowhere"))
    with pytest.raises(DumpError, match=r"memory://nowhere/runs: expected .* found nothing there"):
        load(root)


@pytest.mark.parametrize(
    ("match", "parts"),
    [
        ("s3://b/runs/c{concurrency}/*", ("s3://b/runs", "c{concurrency}/*")),
        ("s3://b/**", ("s3://b", "**")),
        ("s3://b/runs/", ("s3://b/runs", "")),
        ("https://h/a.tar.gz/**", ("https://h/a.tar.gz", "**")),
        ("https://h/a.jsonl?X-Amz-Signature=1", ("https://h/a.jsonl?X-Amz-Signature=1", "")),
        ("s3://*", ("s3:", "*")),
    ],
)
def test_what_stands_before_the_first_wildcard_is_fetched(
    match: str, parts: tuple[str, str]
) -> None:
    assert _split(match) == parts
