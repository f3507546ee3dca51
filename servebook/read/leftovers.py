"""Files that clients write beside their dumps, and what to say of one that is left alone.

A companion is let be while the dump that it belongs to is there. Where it is all that was copied,
it is refused with what it is and what to copy instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from servebook.read.codecs import SUFFIXES
from servebook.read.source import File
from servebook.read.vllm import is_list_of_results

__all__ = ["UNKNOWN", "is_companion", "left_alone"]

#: Files that clients write beside their dumps, and papers that people keep there.
_COMPANIONS = re.compile(
    r"""(?:llm_)?inputs\.json | outputs\.json | .*server_metrics.* | .*gpu_telemetry.*
      | .*timeslices.* | .*network_latency.* | .*_console\.txt
      | phase_manifest\.json | run_config\.json
      | .*_raw\.jsonl | .*aiperf.*\.csv | .*\.pytorch\.json | .*failure\.json | warmup\.json
      | gpu_metrics\.csv
      | .*aiperf_(?:collated|aggregate|sweep)\.json
      | summary\.(?:json|csv) | published\.csv | recipes\.csv | sha256sums | readme.* | license.*
      | .*\.(?:md|log|ya?ml|xlsx|sh|py|png|jpe?g|svg|pdf|html|out|err)""",
    re.VERBOSE | re.IGNORECASE,
)
_FOLDERS = {"phases", "aggregate", "sweep_aggregate", "logs"}

UNKNOWN = (
    "not a dump that Servebook knows; docs/formats.md lists those it reads, "
    'and a name that begins with "_" keeps a file out'
)

#: A line that people put before each reading of counters, so that a log with it is no mere log.
_STAMP = re.compile(rb"(?m)^### ?\d{9,19}(?:\.\d+)?\b")
_LOG = (
    "a log with a time before each reading, but of nothing that Servebook knows; docs/formats.md "
    "names the commands whose output it reads"
)

#: What a file is by its first bytes, and what to give instead.
_KNOWN = (
    (
        re.compile(rb"\s*Metric,(?:avg|min|max|p\d+|sum|std|count|Value)\b"),
        "AIPerf's table of rounded values; give profile_export.jsonl of the same folder",
    ),
    (
        re.compile(rb'\s*\{[^}]{0,600}"(?:aggregation_type|sweep_parameters)"\s*:'),
        "AIPerf's statistics over several runs; give the folders of the runs themselves",
    ),
    (
        re.compile(rb'\s*\{.{0,4000}"(?:combined|per_run)"\s*:\s*[\[{]', re.DOTALL),
        "AIPerf's pool of several runs; give the folders of the runs themselves",
    ),
    (
        re.compile(rb'\s*\{[^{]{0,600}"timeslices"\s*:'),
        "AIPerf's statistics per time slice; give the run's profile_export.jsonl",
    ),
    (
        re.compile(rb"[^\n]*,(?:mean|median|p99)_(?:ttft|tpot|itl|e2el)_ms[,\n]"),
        "a table of vllm bench sweep; give the run=<n>.json files below it",
    ),
    (
        re.compile(rb"[^\n]*NVIDIA AIPerf|[^\n]*\n[^\n]*NVIDIA AIPerf"),
        "what AIPerf printed; give the run's profile_export.jsonl",
    ),
    (
        re.compile(rb"=+ Serving Benchmark Result =+"),
        "what bench serve printed; run it with --save-result --save-detailed, give its JSON file",
    ),
)


def is_companion(file: File) -> bool:
    """Whether a file that no reader claims is one that clients or people put beside dumps."""
    folders = set(Path(file.relative).parent.parts)
    # SONiC's techsupport: hundreds of files, of which the counters' snapshots are read.
    support = any(part.startswith("sonic_dump_") for part in folders)
    named = (
        support
        or bool(_FOLDERS & folders)
        or bool(_COMPANIONS.fullmatch(_unpacked(file.path.name)))
    )
    return named or is_list_of_results(file.head)  # its runs are there, else it would be read


def left_alone(file: File, run_folders: Collection[Path]) -> str | None:
    """Why a file is refused that says something only beside a run, where there is no run.

    A log of readings that no reader claims is refused wherever it lies, never taken for a log.
    ``run_folders`` are the folders of all runs and those above them. None for every other file.
    """
    if _STAMP.search(file.head):
        return _LOG
    place = file.path.parent
    parts = place.relative_to(file.root).parts
    for depth, part in enumerate(parts):
        if part in _FOLDERS:
            place = file.root.joinpath(*parts[:depth])
            break
    if place in run_folders:
        return None
    return next((words for known, words in _KNOWN if known.match(file.head)), None)


def _unpacked(name: str) -> str:
    return next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name)
