"""Memory fit against sums done by hand: 2.4e12 parameters on GPUs with 288 GB."""

import pytest

from servebook.explain.memory import crossed, fit
from servebook.read.manifest import Configuration


def setting(name="a", **stated):
    known = {"precision": "FP8", "bytes_per_parameter": 1.0, "hbm_gb": 288.0, "nodes": 1}
    known |= {"gpus_per_node": 8, "gpus": 8}
    return Configuration(name=name, line=1, **(known | stated))


ONE_NVFP4 = setting("one", precision="NVFP4", bytes_per_parameter=0.5)
TWO_FP8 = setting("two", nodes=2, gpus=16)


@pytest.mark.parametrize(
    ("stated", "weights", "per_gpu", "hbm", "fits", "shortfall", "room"),
    [
        (setting(), 2400, 300, 2304, False, 96, None),
        (ONE_NVFP4, 1200, 150, 2304, True, 0, 1104),
        (TWO_FP8, 2400, 150, 4608, True, 0, 2208),
        (setting(bytes_per_parameter=0.96), 2304, 288, 2304, True, 0, 0),
        (setting(bytes_per_parameter=0.5, dp=2, ep=1), 2400, 300, 2304, False, 96, None),
        (setting(bytes_per_parameter=0.5, dp=2, ep=8), 1200, 150, 2304, True, 0, 1104),
    ],
)
def test_fit(stated, weights, per_gpu, hbm, fits, shortfall, room):
    got = fit(stated, 2.4e12)
    assert got.weights_gb == pytest.approx(weights)
    assert got.weights_per_gpu_gb == pytest.approx(per_gpu)
    assert got.hbm_gb == hbm
    assert got.fits is fits
    assert got.shortfall_gb == pytest.approx(shortfall, abs=1e-9)
    assert got.kv_room_gb == (None if room is None else pytest.approx(room, abs=1e-9))
    assert got.missing == ()


@pytest.mark.parametrize(
    ("stated", "parameters", "missing"),
    [
        (setting(), None, "the model's parameter count"),
        (setting(bytes_per_parameter=None), 1e9, "the bytes per parameter"),
        (setting(gpus=None, nodes=None), 1e9, "the number of GPUs"),
        (setting(hbm_gb=None), 1e9, "the HBM per GPU"),
    ],
)
def test_what_the_manifest_does_not_state_is_named_and_never_zero(stated, parameters, missing):
    got = fit(stated, parameters)
    assert got.missing == (missing,)
    assert (got.fits, got.shortfall_gb, got.kv_room_gb) == (None, None, None)


def test_gpus_follow_from_nodes_and_gpus_per_node():
    assert fit(setting(gpus=None, nodes=2), 2.4e12).weights_per_gpu_gb == pytest.approx(150)


def test_crossed_names_the_cell_that_cannot_run_and_the_one_that_was_not_run():
    cells = {c.label: c for c in crossed([TWO_FP8, ONE_NVFP4], 2.4e12)}
    assert list(cells) == ["NVFP4 on 8 GPUs", "FP8 on 8 GPUs", "NVFP4 on 16 GPUs", "FP8 on 16 GPUs"]
    assert cells["NVFP4 on 8 GPUs"].configurations == ("one",)
    impossible = cells["FP8 on 8 GPUs"]
    assert (impossible.configurations, impossible.fits) == ((), False)
    assert impossible.shortfall_gb == pytest.approx(96)
    settles = cells["NVFP4 on 16 GPUs"]
    assert (settles.configurations, settles.fits) == ((), True)
    assert settles.weights_per_gpu_gb == pytest.approx(75)


def test_crossed_leaves_out_what_is_not_stated():
    assert crossed([setting(hbm_gb=None)], 2.4e12) == []


def test_two_layouts_of_one_cell_are_one_cell():
    (cell,) = crossed([setting("tp8"), setting("tp4", dp=2, ep=8)], 2.4e12)
    assert cell.configurations == ("tp8", "tp4")
