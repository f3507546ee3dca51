"""``servebook stalls``: a row per gap in a file, a table on the terminal, clear errors."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from servebook.cli import main

LOOPBACK = Path(__file__).parents[2] / "data" / "loopback"
RUN = LOOPBACK / "raw" / "aiperf" / "spread" / "mixed_c4"


def test_one_row_per_gap_with_the_promised_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gaps.parquet"
    assert main(["stalls", str(RUN), "-o", str(file)]) == 0
    table = pq.read_table(file)
    assert table.column_names == [
        "run_id",
        "request_id",
        "index",
        "end_ns",
        "gap_ns",
        "step_end_ns",
        "is_stall",
        "cause",
        "prefill_tokens",
    ]
    frame = table.to_pandas()
    assert len(frame) == 4_021  # 3,594 of profiling requests, 427 of warm-up
    assert frame["is_stall"].sum() == 81
    assert set(frame.loc[frame["is_stall"], "cause"]) == {"prefill"}
    assert set(frame.loc[frame["is_stall"], "prefill_tokens"]) == {768, 1536, 2304}
    assert frame["step_end_ns"].le(frame["end_ns"]).all()
    out = capsys.readouterr().out
    assert "mixed_c4" in out
    assert " 78 " in out  # stalls of ok profiling requests
    assert not list(tmp_path.glob("*.part"))
    # The same bytes again.
    again = tmp_path / "again.parquet"
    assert main(["stalls", str(RUN), "--output", str(again)]) == 0
    assert again.read_bytes() == file.read_bytes()


def test_a_tree_and_a_campaign_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stalls", str(RUN.parent)]) == 0
    tree = capsys.readouterr().out
    assert "chunk256_mixed_c8" in tree
    assert "prefill_c1" in tree
    assert "one output token per request" in tree
    assert main(["stalls", str(LOOPBACK)]) == 0
    campaign = capsys.readouterr().out
    assert "spread/mixed_c24" in campaign
    assert "vllm/mixed_c4" in campaign


def test_links_are_told_of_where_counters_were_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stalls", str(RUN)]) == 0
    alone = capsys.readouterr().out
    assert "link: not known (-). No byte counter of a link of known speed" in alone
    assert main(["stalls", str(LOOPBACK)]) == 0
    campaign = capsys.readouterr().out
    assert "link: counters of links were read during 14 of 26 runs; of the others" in campaign
    column = campaign.splitlines()[0].split("  ")
    assert any(cell.strip() == "link" for cell in column)
    (row,) = [line for line in campaign.splitlines() if "spread/mixed_c24" in line]
    assert row.split()[-5:-3] == ["0", "0"]  # watched, and no stall by a link
    (row,) = [line for line in campaign.splitlines() if "vllm/mixed_c4" in line]
    assert row.split()[-5] == "-"  # nobody watched a link


def test_without_gaps_it_says_so_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stalls", str(RUN.parent / "prefill_c2")]) == 1
    assert "nothing can stall" in capsys.readouterr().out


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stalls", str(tmp_path / "absent")]) != 0
    assert capsys.readouterr().err.startswith("servebook: ")
    target = tmp_path / "no" / "such" / "gaps.parquet"
    assert main(["stalls", str(RUN), "-o", str(target)]) != 0
    error = capsys.readouterr().err
    assert error.startswith("servebook: ")
    assert "cannot be written" in error
    assert error.count("\n") == 1
