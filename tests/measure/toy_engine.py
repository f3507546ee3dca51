"""An engine that gives prompts steps of their own, and a client that delivers late: planted truth.

``servebook.explain.engine`` shares steps between prompts and decodes; this one does not. Times in
seconds; random numbers come from the generator that is handed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from servebook.tables import Tables, table

ZERO_NS = 1_700_000_000_000_000_000
Floats = npt.NDArray[np.float64]


@dataclass
class Toy:
    """One engine: ``emitted`` and ``prefills`` (steps until then) per request and token."""

    isl: Sequence[int]
    osl: Sequence[int]
    concurrency: int
    max_seqs: int = 16
    rate: float = 50_000.0
    base_s: float = 0.002
    decode_s: float = 0.006
    per_seq_s: float = 0.0002
    batched: bool = False
    part_tokens: int = 0  # so many prompt tokens at a time, and a decode step after each part
    cancel_s: Sequence[float] | None = None  # NaN: never
    start: Floats = field(init=False)
    emitted: list[list[float]] = field(init=False)
    prefills: list[list[int]] = field(init=False)

    def run(self, rng: np.random.Generator) -> Toy:
        """Run to the end; steps take up to a few percent longer than their formula."""
        total = len(self.isl)
        self.start = np.full(total, np.nan)
        self.emitted = [[] for _ in range(total)]
        self.prefills = [[] for _ in range(total)]
        arrivals = [(0.0005 * i, i) for i in range(min(self.concurrency, total))]
        sent, done, now, count = len(arrivals), 0, 0.0, 0
        prompts: list[int] = []
        taken: list[int] = []
        left, decode_next = 0, False
        running: list[int] = []

        def finish() -> None:
            nonlocal sent, done
            done += 1
            if sent < total:
                heapq.heappush(arrivals, (now + 0.001 + rng.exponential(0.0007), sent))
                sent += 1

        def emit(requests: Sequence[int]) -> None:
            for one in requests:
                self.emitted[one].append(now)
                self.prefills[one].append(count)
                if len(self.emitted[one]) == self.osl[one]:
                    finish()
                elif one not in running:
                    running.append(one)
                    continue
                if len(self.emitted[one]) == self.osl[one] and one in running:
                    running.remove(one)

        while done < total:
            while arrivals and arrivals[0][0] <= now:
                at, one = heapq.heappop(arrivals)
                self.start[one] = at
                prompts.append(one)
            if self.cancel_s is not None:
                for one in [*prompts, *running]:
                    if now >= self.start[one] + self.cancel_s[one]:
                        (prompts if one in prompts else running).remove(one)
                        finish()
            free = self.max_seqs - len(running)
            if not left and prompts and free > 0:
                taken = prompts[: free if self.batched else 1]
                del prompts[: len(taken)]
                left = sum(self.isl[one] for one in taken)
            if left and not (decode_next and running):
                tokens = min(left, self.part_tokens or left)
                now += (self.base_s + tokens / self.rate) * (1 + 0.02 * abs(rng.normal()))
                count += 1
                left -= tokens
                decode_next = self.part_tokens > 0
                if not left:
                    emit(taken)
            elif running:
                decode_next = False
                step = self.decode_s + self.per_seq_s * len(running)
                now += step * (1 + 0.02 * abs(rng.normal()))
                emit(list(running))
            else:
                now = max(now, arrivals[0][0])
        return self


def delivered(
    emitted: Sequence[Sequence[float]],
    rng: np.random.Generator,
    *,
    pauses_per_s: float = 0.5,
    pause_s: float = 0.02,
    workers: int = 3,
) -> list[Floats]:
    """Token times as a client sees them: its workers pause, and then read all that has come."""
    last = max(times[-1] for times in emitted if len(times))
    pauses = []
    for _ in range(workers):
        begin = np.sort(rng.uniform(0, last, rng.poisson(pauses_per_s * last)))
        pauses.append((begin, begin + rng.exponential(pause_s, len(begin))))
    out = []
    for times in emitted:
        seen = np.asarray(times) + 0.0002 + rng.exponential(0.0003, len(times))
        begin, end = pauses[int(rng.integers(workers))]
        if len(begin):
            place = np.maximum(np.searchsorted(begin, seen) - 1, 0)
            late = (seen > begin[place]) & (seen < end[place])
            seen = np.where(late, end[place] + 1e-5 * rng.random(len(seen)), seen)
        out.append(np.maximum.accumulate(seen))
    return out


def as_tables(
    start: Floats,
    times: Sequence[Floats],
    isl: Sequence[int],
    osl: Sequence[int],
    *,
    end: Floats | None = None,
    lost: Sequence[int] = (),
    run_id: str = "r",
) -> Tables:
    """Canonical tables. Requests with fewer tokens than asked for are cancelled (without a first
    token, at ``end``); those in ``lost`` leave no record."""
    rows, gaps = [], []
    for i, seen in enumerate(times):
        if i in lost:
            continue
        ns = np.rint(seen * 1e9).astype(np.int64) + ZERO_NS
        ok = end is None or len(ns) == osl[i]
        rows.append(
            {
                "run_id": run_id,
                "request_id": str(i),
                "phase": "profiling",
                "status": "ok" if ok else "cancelled",
                "start_ns": round(start[i] * 1e9) + ZERO_NS,
                "first_token_ns": int(ns[0]) if ok else None,
                "end_ns": int(ns[-1]) if ok or end is None else round(end[i] * 1e9) + ZERO_NS,
                "isl": int(isl[i]) if ok else None,
                "osl": int(osl[i]) if ok else None,
            }
        )
        if ok:
            gaps += [
                {
                    "run_id": run_id,
                    "request_id": str(i),
                    "index": k,
                    "end_ns": int(ns[k + 1]),
                    "gap_ns": int(ns[k + 1] - ns[k]),
                }
                for k in range(len(ns) - 1)
            ]
    run = {
        "run_id": run_id,
        "path": run_id,
        "client": "AIPerf",
        "format": "aiperf",
        "clock": "epoch",
        "level": "records",
        "workload": "mixed",
        "n_requests": len(rows),
        "n_ok": sum(row["status"] == "ok" for row in rows),
        "n_gaps": len(gaps),
        "n_lost": len(lost),
        "complete": True,
    }
    return Tables(
        runs=table("runs", [run]), requests=table("requests", rows), gaps=table("gaps", gaps)
    )
