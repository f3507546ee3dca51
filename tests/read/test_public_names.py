"""Names of metrics that a reason may show, and those that may name somebody's host."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebook.read import prometheus_api, telegraf
from servebook.read.public_names import is_public
from servebook.read.source import File, Format


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("cpu", True),
        ("node_load1", True),
        ("vllm:num_requests_running", True),
        ("gpu-node-17-load", False),
        ("canary_host_7", False),
        ("cpu_of_canary", False),
        ("node_load1 of canary", False),
        ("node_" + "x" * 200, False),
        ("", False),
    ],
)
def test_a_name_is_shown_that_everybody_has(name: str, public: bool) -> None:
    assert is_public(name) == public


@pytest.mark.parametrize(
    ("form", "name", "content"),
    [
        (
            telegraf.FORMAT,
            "metrics.out",
            (
                "net,interface=eth0,host=h bytes_recv=1i,bytes_sent=2i 1700000000000000000\n"
                "net,interface=eth0,host=h bytes_recv=5i,bytes_sent=7i 1700000001000000000\n"
                "canary-host-7,host=h load=1 1700000001000000000\n"
                "mem,host=h used=1 1700000001000000000\n"
            ),
        ),
        (
            prometheus_api.FORMAT,
            "reply.json",
            (
                '{"status":"success","data":{"resultType":"matrix","result":['
                '{"metric":{"__name__":"node_network_receive_bytes_total","device":"eth0"},'
                '"values":[[1700000000,"1"],[1700000001,"5"]]},'
                '{"metric":{"__name__":"canary_host_7"},"values":[[1700000000,"1"]]},'
                '{"metric":{"__name__":"node_load1"},"values":[[1700000000,"1"]]}]}}'
            ),
        ),
    ],
)
def test_no_reason_names_what_somebody_called_a_metric(
    form: Format, name: str, content: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    (source,) = form.find([File(tmp_path, path, content.encode(), len(content))])
    reasons = " ".join(form.read(source).set_aside["reason"].to_pylist())
    assert "canary" not in reasons
    assert ("mem: " if form is telegraf.FORMAT else "(node_load1)") in reasons
