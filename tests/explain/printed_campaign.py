"""A small campaign with printed figures, made by the reconstruction's own writers.

Every printed value was worked out by hand from the recipes, never by the ledger: a closed loop of
prompts runs at the prefill rate; a decode step of one batch is the TPOT; link levels are printed
and written as they are.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from servebook.explain.reconstruct.generate import generate, write

__all__ = ["MANIFEST", "PUBLISHED", "RECIPES", "SETTINGS", "build", "edit_vllm"]

HEADER = (
    "id,article,section,kind,configuration,workload,isl,osl,concurrency,run,metric,stat,value,"
    "unit,printed_step,note\n"
)
# One node, two GPUs each with 1 GB; 1e9 parameters of 1 byte.
PUBLISHED = (
    HEADER
    + """\
p2,X,prefill,measured,a,prefill,512,1,2,raw/aiperf/prefill_c2,input_throughput,total,1000,tok/s,1,
p4,X,prefill,measured,a,prefill,512,1,4,raw/aiperf/prefill_c4,input_throughput,total,1950,tok/s,1,
p8,X,prefill,measured,a,prefill,512,1,8,raw/aiperf/prefill_c8,input_throughput,total,2000,tok/s,1,
ratio,X,prefill,derived,a,prefill,512,1,,,throughput_ratio,c8/c2,2,x,0.01,
step,X,prefill,derived,a,prefill,512,1,4,,throughput_step_ratio,,1.95,x,0.01,
ceiling,X,prefill,derived,a,prefill,512,1,,,ceiling,,2000,tok/s,1,
knee,X,prefill,derived,a,prefill,512,1,,,saturation_concurrency,,4,requests,1,
share,X,prefill,derived,a,prefill,512,1,4,,share_of_ceiling,,97.5,%,0.1,
gaps,X,isolation,measured,a,prefill,,,,,n_gaps,over all prefill runs,0,gaps,0,
tokens,X,isolation,measured,a,decode,16,64,,,output_tokens,= requests x OSL exactly,1,bool,0,
d2,X,decode,measured,a,decode,16,64,2,raw/aiperf/decode_c2,tpot,mean,50,ms,0.1,
d4,X,decode,measured,a,decode,16,64,4,raw/aiperf/decode_c4,tpot,mean,80,ms,0.1,
user,X,decode,derived,a,decode,16,64,2,,output_throughput_per_user,,20,tok/s,0.1,
m4,X,mixed,measured,a,mixed,512,64,4,raw/stress/mixed_c4.json.gz,itl,median,80,ms,0.1,
level,X,mixed,derived,a,mixed,512,64,4,,itl_median_over_decode_tpot,,1,x,0.01,
prefill.usual,X,links,measured,a,prefill,,,,,link_utilisation,usual,6,%,0.1,
port.a,X,links,measured,a,prefill,,,,,link_utilisation,"one GPU port, prefill",6.06,%,0.01,
port.b,X,links,measured,a,prefill,,,,,link_utilisation,"another GPU port, prefill",5.94,%,0.01,
rate,X,links,derived,a,prefill,,,,,link_rate,usual,24,Gbit/s,0.1,
server,X,links,derived,a,prefill,,,,,server_uplink_rate,sum of uplinks,48,Gbit/s,1,
skew,X,links,derived,a,prefill,,,,,rail_skew,max/min,1.02,x,0.01,
decode.usual,X,links,measured,a,decode,,,,,link_utilisation,usual,2,%,0.01,
floor2,X,links,measured,a,decode,16,64,2,,link_utilisation,floor,1,%,0.01,
floor4,X,links,measured,a,decode,16,64,4,,link_utilisation,floor,2,%,0.01,
floors,X,links,derived,a,decode,16,64,,,utilisation_ratio,c4/c2,2,x,0.01,
over,X,links,derived,,,,,,,utilisation_ratio,max,3,x,0.1,
weights,X,memory,model,fp8,,,,,,weights_total,,1,GB,0.1,
per_gpu,X,memory,model,a,,,,,,weights_per_gpu,,0.5,GB,0.1,
left,X,memory,model,,,,,,,hbm_left_per_gpu,,0.5,GB,0.1,
slots,X,memory,input,,,,,,,max_num_seqs,,64,sequences,1,
waiting,X,memory,model,a,,,,128,,share_waiting_for_a_slot,,50,%,1,
links,X,memory,input,,,,,,,uplinks_per_server,,2,links,1,
hops,X,memory,input,,,,,,,switch_hops,,1,hops,1,
time,X,mixed,model,a,mixed,512,,,,prefill_time,at the ceiling,0.256,s,0.001,
four.out,X,scale-out,model,4 nodes,,,,,,share_leaving_node,,75,%,1,
"""
)
RECIPES = """\
run,configuration,workload,isl,osl,concurrency,replicas,max_num_seqs,decode_s,prefill_tok_s,prompts_per_batch,waves
raw/aiperf/prefill_c2,a,prefill,512,1,2,1,64,0.05,1000,1,16
raw/aiperf/prefill_c4,a,prefill,512,1,4,1,64,0.05,1950,1,16
raw/aiperf/prefill_c8,a,prefill,512,1,8,1,64,0.05,2000,1,8
raw/aiperf/decode_c2,a,decode,16,64,2,1,64,0.05,20000,8,4
raw/aiperf/decode_c4,a,decode,16,64,4,1,64,0.08,20000,8,3
raw/stress/mixed_c4.json.gz,a,mixed,512,64,4,1,64,0.08,2000,2,3
raw/aiperf/mixed_c4,a,mixed,512,64,4,1,64,0.09,2000,2,3
"""
SETTINGS = """\
start: "2026-01-05T00:00:00+00:00"
idle_s: 5
poll_s: 0.5
model: m
counters: prometheus
device: leaf1
watched: [a]
rails: 2
speed_bps: 400e+9
skew: 1.0202
reset: {interface: Ethernet1/1, run: raw/aiperf/decode_c4}
"""
MANIFEST = """\
servebook: 1
name: small
provenance: reconstructed
model: {parameters: 1e9}
configurations:
  a: {hbm_gb: 1, nodes: 1, gpus_per_node: 2, gpus: 2, dp: 1, precision: FP8,
      bytes_per_parameter: 1, max_num_seqs: 64}
runs:
  - {match: "raw/aiperf/{workload}_c{concurrency}", configuration: a}
  - {match: raw/stress/mixed_c4, configuration: a, workload: mixed, isl: 512, osl: 64,
     start: "2026-01-05T00:02:00+00:00"}
  - {match: raw/stress, configuration: a, workload: mixed, isl: 512, osl: 64,
     start: "2026-01-05T00:02:00+00:00"}
counters: [{match: raw/switch/*, device: leaf1}]
ports:
  - {device: leaf1, interface: Ethernet1/1, speed_gbps: 400, role: uplink, node: s1, rail: 1}
  - {device: leaf1, interface: Ethernet1/2, speed_gbps: 400, role: uplink, node: s1, rail: 2}
  - {device: leaf1, interface: Ethernet2/1, speed_gbps: 400, role: uplink, node: s2, rail: 1}
  - {device: leaf1, interface: Ethernet2/2, speed_gbps: 400, role: uplink, node: s2, rail: 2}
"""


def build(folder: Path) -> Path:
    """The campaign's folder, dumps and all."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "published.csv").write_text(PUBLISHED)
    (folder / "recipes.csv").write_text(RECIPES)
    (folder / "reconstruction.yaml").write_text(SETTINGS)
    (folder / "campaign.yaml").write_text(MANIFEST)
    write(folder, generate(folder))
    return folder


def edit_vllm(path: Path, change: Any) -> None:
    """Apply ``change`` to the object of a packed vLLM dump."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    change(document)
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
