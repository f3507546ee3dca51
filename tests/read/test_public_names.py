"""Names of metrics that a reason may show, and those that may name somebody's host."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebook.read import gnmic, prometheus_api, telegraf
from servebook.read.public_names import THIS_SITE, is_public, is_public_leaf
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
        # A name of a site's own that begins as an exporter's do.
        ("node_canary", False),
        ("node_canary_load", False),
        ("node_load_canary", False),
        ("node_17_load", False),
        ("node_load_117", False),
        ("node_h7", False),
        ("node_", False),
        ("vllm:canary_requests", False),
        ("DCGM_FI_DEV_CANARY", False),
        # Names that programmes give.
        ("node_memory_DirectMap2M_bytes", True),
        ("node_netstat_TcpExt_SyncookiesFailed", True),
        ("node_sockstat_UDP6_inuse", True),
        ("node_nf_conntrack_entries_limit", True),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", True),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", True),
        ("container_cpu_cfs_throttled_seconds_total", True),
        ("container_cpu_load_average_10s", True),
        ("container_llc_occupancy_bytes", True),
        ("DCGM_FI_DEV_POWER_MGMT_LIMIT", True),
        ("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", True),
        ("DCGM_FI_PROF_C2C_TX_ALL_BYTES", False),  # "all"
        ("node_hwmon_temp_celsius", True),
        ("node_infiniband_np_cnp_packets_sent_total", True),
        ("node_infiniband_roce_slow_restart_cnps_total", True),
        ("node_ethtool_received_prio3_pause", True),
        ("node_ethtool_received_vport_rdma_unicast_bytes", True),
        ("ethtool_rx_discards_phy", True),
        ("sglang:num_running_reqs", True),
        ("vllm:nixl_xfer_time_seconds_bucket", True),
        ("kube_horizontalpodautoscaler_status_current_replicas", True),
        ("sonic_interface_optic_voltage_volts", True),
        # A counter's word by which a machine may be called.
        ("node_ethtool_tx_pause_storm_error_events", False),
        ("node_storm1_load", False),
        ("node_web1_load", False),
        ("node_memory_c_bytes", False),
        ("node_ethtool_rx_64_bytes_phy", False),  # a number alone may be a host's
        ("container_memory_working_set_bytes", True),
        ("kube_pod_container_status_restarts_total", True),
        ("go_memstats_heap_alloc_bytes", True),
        ("infiniband_hca_port_symbol_error_total", True),
        ("ifHCInBroadcastPkts", True),
        ("ifInNUcastPkts", True),
        ("vllm:spec_decode_num_accepted_tokens_total", True),
        ("vllm:e2e_request_latency_seconds_bucket", True),
        ("trtllm_kv_cache_hit_rate", True),
    ],
)
def test_a_name_is_shown_that_everybody_has(name: str, public: bool) -> None:
    assert is_public(name) == public


@pytest.mark.parametrize(
    ("leaf", "public"),
    [
        ("in-unknown-protos", True),
        ("out-mirror-octets", True),
        ("carrier-transitions", True),
        ("in-8021q-frames", True),
        ("laser-bias-current", True),
        ("pre-fec-ber", True),
        ("in-canary-octets", False),
        ("canary", False),
        ("in-octets of canary", False),
        ("", False),
    ],
)
def test_a_leaf_is_shown_that_published_models_have(leaf: str, public: bool) -> None:
    assert is_public_leaf(leaf) == public


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
                '{"metric":{"__name__":"node_canary_load"},"values":[[1700000000,"1"]]},'
                '{"metric":{"__name__":"node_load1"},"values":[[1700000000,"1"]]}]}}'
            ),
        ),
        (
            gnmic.FORMAT,
            "events.json",
            (
                '[{"name":"s","timestamp":1700000000000000000,"tags":{"interface_name":"e1",'
                '"source":"sw1"},"values":{"/interfaces/interface/state/counters/in-octets":1,'
                '"/interfaces/interface/state/counters/canary-host-7":2,'
                '"/interfaces/interface/state/counters/in-canary-pkts":2,'
                '"/interfaces/interface/state/counters/carrier-transitions":3}}]\n'
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
    told = {telegraf: "mem: ", prometheus_api: "(node_load1)", gnmic: "carrier-transitions"}
    assert next(words for of, words in told.items() if form is of.FORMAT) in reasons
    assert (THIS_SITE in reasons) == (form is not telegraf.FORMAT)
