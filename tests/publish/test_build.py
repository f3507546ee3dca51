from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from servebook.errors import BuildError
from servebook.publish.build import build
from servebook.publish.checks import problems
from servebook.publish.pack import charts_text
from servebook.publish.workers import Workers

HELPER = Path(__file__).with_name("toybuild.py")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def spawn(folder: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HELPER), str(folder), *options],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_page_is_sound_and_small(toy_page: Path) -> None:
    text = toy_page.read_text()
    assert problems(text, [str(toy_page.parents[1]), str(Path.home())]) == []
    assert len(text.encode()) < 1_050_000


def test_the_page_says_what_it_rests_on(toy_page: Path) -> None:
    text = toy_page.read_text()
    for part in (
        "Toy: one node against two",
        "<strong>Measured.</strong> Constant numbers, made for tests.",
        "no interval: one run",
        "n = 12 runs",
        "What would change this:",
        "a" * 64,
        "Nothing &lt;odd&gt;.",
        "This campaign holds no counters.",
        "The first 100 of 250 rows",
        "It never means zero.",
    ):
        assert part in text
    assert "Reconstructed" not in text


def test_no_name_turns_the_direction_of_the_text(toy_page: Path) -> None:
    text = toy_page.read_text()
    assert "A second paragraph." in text  # the toy puts a mark between the two words
    for place in (text, charts_text(text)):
        assert len(place) > 1000
        assert "\u202e" not in place
        assert "\\u202e" not in place


def test_files_lie_beside_the_page(toy_page: Path) -> None:
    beside = toy_page.with_suffix("")
    with (beside / "tables" / "throughput.csv").open(newline="") as handle:
        rows = list(csv.reader(handle))
    assert rows[0] == ["Configuration", "Concurrency", "Output (tokens/s)"]
    assert rows[6][2] == "1352.12"
    assert rows[12][2] == ""
    table = pq.read_table(beside / "tables" / "throughput.parquet")
    assert table["Output (tokens/s)"].to_pylist()[-1] is None
    assert (beside / "charts" / "memory.png").read_bytes().startswith(b"\x89PNG")
    assert "Weights take 150 GB" in (beside / "charts" / "memory.svg").read_text()


def test_claims_hold_every_statement(toy_page: Path) -> None:
    claims = json.loads((toy_page.with_suffix("") / "claims.json").read_text())
    assert claims["verdicts"] == ["faster", "fits"]
    first = claims["statements"][0]
    assert (first["id"], first["value"], first["n"], first["low"]) == ("faster", 1.4364, 12, None)
    figures = {figure["id"]: figure for figure in claims["figures"]}
    assert figures["throughput"]["chart"] == "charts/throughput.svg"
    assert figures["lacking"]["table"] is None
    assert [one["path"] for one in claims["inputs"]] == ["raw/a.jsonl", "raw/b.jsonl"]
    assert "_ns" not in json.dumps(claims)


def test_no_day_of_the_build_is_in_it(toy_page: Path) -> None:
    own = re.sub(r"<script>.*?</script>", "", toy_page.read_text(), flags=re.DOTALL)
    assert time.strftime("%Y-%m-%d") not in own


@pytest.mark.slow
def test_a_reconstructed_campaign_says_so_at_every_chart(
    toybuild: ModuleType, workers: Workers, tmp_path: Path
) -> None:
    text = toybuild.build_toy(tmp_path, workers, provenance="reconstructed").read_text()
    assert "<strong>Reconstructed, not measured.</strong>" in text
    # A figure without data shows nothing that could be taken for measured.
    marked = text.count("Reconstructed, not measured</p>")
    assert marked == text.count('<figure class="figure"') == text.count("<figure ") - 1


@pytest.mark.slow
def test_a_campaign_without_a_provenance_says_so(
    toybuild: ModuleType, workers: Workers, tmp_path: Path
) -> None:
    text = toybuild.build_toy(tmp_path, workers, provenance="not stated").read_text()
    assert "<strong>The manifest does not say whether this was measured.</strong>" in text
    assert "Measured.</strong>" not in text
    assert "Reconstructed, not measured" not in text


@pytest.mark.slow
def test_two_builds_elsewhere_give_the_same_bytes(toy_page: Path, tmp_path: Path) -> None:
    other = tmp_path / "a longer folder name" / "é"
    other.mkdir(parents=True)
    variables = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "77"}
    done = spawn(other, "--one-by-one", OMP_NUM_THREADS="2", **variables)
    out, err = done.communicate(timeout=300)
    assert done.returncode == 0, out + err
    page = other / "report" / "toy.html"
    assert digest(page) == digest(toy_page)
    for path in sorted(toy_page.with_suffix("").rglob("*.*")):
        twin = page.with_suffix("") / path.relative_to(toy_page.with_suffix(""))
        assert digest(twin) == digest(path), path.name


def test_a_failing_notebook_leaves_the_last_good_page(
    toybuild: ModuleType, workers: Workers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report"
    (report / "toy").mkdir(parents=True)
    (report / "toy.html").write_text("good")
    with pytest.raises(BuildError, match=r"failing.ipynb, cell 4 \(y = x / 0\)"):
        toybuild.build_toy(tmp_path, workers, notebooks="failing")
    assert (report / "toy.html").read_text() == "good"
    assert sorted(path.name for path in report.iterdir()) == ["toy", "toy.html"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_a_drawing_worker_that_is_killed_is_one_clear_error(
    toybuild: ModuleType, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    report.mkdir()
    (report / "toy.html").write_text("good")
    with Workers() as own:
        bundle = own.bundle  # the worker starts with it
        for pid in list(own.studio._pool._processes):
            os.kill(pid, signal.SIGKILL)
        assert bundle.exception(timeout=60) is not None
        with pytest.raises(BuildError) as caught:
            toybuild.build_toy(tmp_path, own)
    assert str(caught.value).endswith(
        ": the process that draws the charts ended (killed, or out of memory)"
    )
    assert (report / "toy.html").read_text() == "good"


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [1.0, 4.0, 9.0])
def test_a_killed_build_leaves_the_last_good_page(tmp_path: Path, after_s: float) -> None:
    report = tmp_path / "report"
    report.mkdir()
    (report / "toy.html").write_text("good")
    running = spawn(tmp_path)
    time.sleep(after_s)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    text = (report / "toy.html").read_text()
    assert text == "good" or text.endswith("</html>\n")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "holds no campaign.yaml; write a first one with: servebook init"),
        (["one/c", "two/c"], "two campaigns would write the same page: c"),
    ],
)
def test_wrong_campaigns_are_named(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        if "/" in name:
            (tmp_path / name / "campaign.yaml").write_text("")
    with pytest.raises(BuildError, match=message):
        build([tmp_path / name for name in names], tmp_path / "report")


def test_the_process_that_drives_a_build_imports_no_tables() -> None:
    """Kernels have them; here they would cost as much as the whole of what it does."""
    script = (
        "import sys, contextlib\nfrom servebook.publish import build\n"
        "with contextlib.ExitStack() as stack:\n    build._ready_to_run(stack)\n"
        "print(sorted({'altair', 'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
