"""Memory fit as a figure: 2.4e12 parameters on GPUs with 288 GB, and what to say without them."""

import pytest
import small
from wires import campaign, runs

from servebook.publish.chapters import memory
from servebook.publish.display import payload
from servebook.publish.spec import specification

B300 = """
model: {name: big, parameters: 2400000000000}
configurations:
  one-tp8: {label: one node TP8, nodes: 1, gpus: 8, gpus_per_node: 8, precision: NVFP4,
            bytes_per_parameter: 0.5, hbm_gb: 288, tp: 8, dp: 1}
  one-tp4: {label: one node TP4, nodes: 1, gpus: 8, gpus_per_node: 8, precision: NVFP4,
            bytes_per_parameter: 0.5, hbm_gb: 288, tp: 4, dp: 2, ep: 8}
  two: {label: two nodes, nodes: 2, gpus: 16, gpus_per_node: 8, precision: FP8,
        bytes_per_parameter: 1, hbm_gb: 288, tp: 8, dp: 1}
"""


def figure(tmp_path, manifest):
    return memory.fit(campaign(tmp_path, runs(("r", "one", "mixed", 0, 9)), manifest=manifest))


def test_the_crossed_cells_tell_why_these_were_compared(tmp_path):
    got = figure(tmp_path, B300)
    assert got.title == "FP8 on 8 GPUs does not fit: 96 GB short"
    table = got.table.set_index("Deployment")
    assert table["Weights (GB)"].to_dict() == {
        "NVFP4 on 8 GPUs": 1200,
        "FP8 on 8 GPUs": 2400,
        "NVFP4 on 16 GPUs": 1200,
        "FP8 on 16 GPUs": 2400,
    }
    assert table["Weights per GPU (GB)"].tolist() == [150, 300, 75, 150]
    assert table["Left for KV cache at most (GB)"].tolist()[::2] == [1104, 3408]
    assert table.loc["FP8 on 8 GPUs", "Configurations"] == "not run"
    assert table.loc["NVFP4 on 8 GPUs", "Configurations"] == "one node TP8, one node TP4"
    assert any("one node TP4: weights counted once" in note for note in got.notes)


def test_the_chart_holds_the_shortfall_beyond_the_line(tmp_path):
    got = figure(tmp_path, B300)
    spec = specification(got.chart, got.alt)
    rows = [row for rows in spec["datasets"].values() for row in rows if row.get("part") == "short"]
    assert [(row["from_gb"], row["to_gb"]) for row in rows] == [(2304, 2400)]
    assert "96 GB short" in got.alt


@pytest.mark.parametrize(
    ("manifest", "missing"),
    [
        ("configurations:\n  a: {nodes: 1}\n", "the HBM per GPU"),
        (B300.replace("model: {name: big, parameters: 2400000000000}", ""), "parameter count"),
        ("", "states no configuration"),
    ],
)
def test_what_is_missing_is_said(tmp_path, manifest, missing):
    got = figure(tmp_path, manifest)
    assert got.chart is None
    assert got.table is None
    assert missing in got.missing
    payload(got)


def test_a_configuration_without_facts_is_named_beside_the_others(tmp_path):
    got = figure(tmp_path, B300 + "  bare: {label: bare one, nodes: 1}\n")
    assert len(got.table) == 4
    assert any("bare one is left out" in note and "HBM" in note for note in got.notes)


def test_where_all_fit_the_tightest_is_named(tmp_path):
    got = figure(tmp_path, B300.replace("hbm_gb: 288", "hbm_gb: 320"))
    # 8 x 320 = 2,560 GB hold 2,400 GB of weights: 160 GB, 6.25 %, are left.
    assert got.title == "All fit; the tightest leaves at most 6.2 % of its memory: FP8 on 8 GPUs"


def test_loopback_has_no_gpu_memory():
    got = memory.fit(small.loopback())
    assert got.chart is None
    assert "an engine without GPU memory has nothing to fit" in got.missing
