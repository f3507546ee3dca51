"""A small discrete-event model of a continuous-batching engine, and of the client that loads it.

What it assumes. The replicas of a data-parallel deployment run in lockstep: each step ends for all
of them when it ends for the slowest, as an all-to-all per layer enforces. Requests are routed on
arrival to the replica that holds the fewest, wait there first in, first out, and are admitted
while the replica has a free slot (``max_num_seqs``). A prefill batch takes whole prompts within
``prefill_budget_tok`` (at least one prompt) and shares its step with the replica's running decodes;
every running request gets one token at the end of each step. With ``chunked`` a step takes prompt
tokens up to the budget and prompts may span steps. A step of a replica that prefills ``p`` tokens
beside ``b`` running requests takes ``prefill_base_s + p / prefill_rate_tok_s + decode_base_s +
decode_per_seq_s * b`` (the first two terms only where p > 0, the last two only where b > 0).

What it cannot show. No KV-cache pressure, preemption, prefix cache, speculative decoding or expert
imbalance; prefill time is linear in tokens (no quadratic attention term); all tokens of a step
arrive at its end, without client jitter; the router knows queue lengths exactly.

Cost. Between events (arrival, admission, completion) all steps are alike, so that a run costs its
events, not its tokens: the token times of a request are a slice of the engine's step ends.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

__all__ = ["Client", "Engine", "Run", "simulate"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Engine:
    """The engine's parameters; times in seconds, rates in tokens per second and replica."""

    decode_base_s: float
    prefill_rate_tok_s: float
    decode_per_seq_s: float = 0.0
    prefill_base_s: float = 0.0
    prefill_budget_tok: int = 16_384
    max_num_seqs: int = 64
    replicas: int = 1
    chunked: bool = False

    def __post_init__(self) -> None:
        positive = {
            "prefill_rate_tok_s": self.prefill_rate_tok_s,
            "prefill_budget_tok": self.prefill_budget_tok,
            "max_num_seqs": self.max_num_seqs,
            "replicas": self.replicas,
        }
        for name, value in positive.items():
            if not value > 0:
                raise ValueError(f"{name}: expected a value above 0, found {value}")
        for name in ("decode_base_s", "decode_per_seq_s", "prefill_base_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: expected 0 or more, found {getattr(self, name)}")
        if self.decode_base_s + self.decode_per_seq_s <= 0:
            raise ValueError("a decode step must take time: both decode terms are 0")

    def decode_s(self, running: int) -> float:
        """Seconds of the decode part of a step with ``running`` requests in one replica."""
        return self.decode_base_s + self.decode_per_seq_s * running if running else 0.0

    def prefill_s(self, tokens: int) -> float:
        """Seconds of the prefill part of a step with ``tokens`` prompt tokens in one replica."""
        return self.prefill_base_s + tokens / self.prefill_rate_tok_s if tokens else 0.0


@dataclass(frozen=True)
class Client:
    """What the client sends: lengths in tokens, and when.

    Closed loop: ``concurrency`` requests are open at any time; a request's end and the start of
    the one that replaces it are ``overhead_s`` apart (one number, or one for each request that
    replaces another, by its index); the first ``concurrency`` requests start evenly spread over
    ``ramp_s``. Open loop: ``arrivals_s`` gives each start.
    ``reply_s`` is the time between an engine's last token and the client's end of the request.
    """

    isl: Sequence[int]
    osl: Sequence[int]
    concurrency: int | None = None
    arrivals_s: Sequence[float] | None = None
    overhead_s: float | Sequence[float] = 0.0
    reply_s: float = 0.0
    ramp_s: float = 0.0

    def pause_s(self, request: int) -> float:
        """Seconds between the end of a request and the start of ``request``, which replaces it."""
        return self.overhead_s if isinstance(self.overhead_s, float) else self.overhead_s[request]

    def __post_init__(self) -> None:
        if not isinstance(self.overhead_s, float) and len(self.overhead_s) != len(self.isl):
            raise ValueError(f"{len(self.overhead_s)} overheads for {len(self.isl)} requests")
        if len(self.isl) != len(self.osl):
            raise ValueError(f"{len(self.isl)} input lengths for {len(self.osl)} output lengths")
        if (self.concurrency is None) == (self.arrivals_s is None):
            raise ValueError("give either concurrency (closed loop) or arrivals_s (open loop)")
        if self.arrivals_s is not None and len(self.arrivals_s) != len(self.isl):
            raise ValueError(f"{len(self.arrivals_s)} arrivals for {len(self.isl)} requests")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"concurrency: expected 1 or more, found {self.concurrency}")
        if min(self.isl, default=1) < 1 or min(self.osl, default=1) < 1:
            raise ValueError("every request needs at least one input and one output token")


@dataclass(frozen=True)
class Run:
    """One simulated run; arrays have one entry per request or per engine step, in seconds."""

    start_s: Floats
    admitted_s: Floats
    first_token_s: Floats
    end_s: Floats
    isl: Ints
    osl: Ints
    replica: Ints
    first_step: Ints  # index of the step that ended with the request's first token
    step_end_s: Floats
    step_prefill_tok: Ints  # prompt tokens in the step, all replicas
    step_running: Ints = field(repr=False)  # requests that decoded in the step, all replicas

    def moved(self, by_s: float) -> Run:
        """The same run, ``by_s`` seconds later."""
        return replace(
            self,
            start_s=self.start_s + by_s,
            admitted_s=self.admitted_s + by_s,
            first_token_s=self.first_token_s + by_s,
            end_s=self.end_s + by_s,
            step_end_s=self.step_end_s + by_s,
        )

    def token_times_s(self, request: int) -> Floats:
        """Times at which the request's tokens left the engine, first token first."""
        first = int(self.first_step[request])
        return self.step_end_s[first : first + int(self.osl[request])]

    def gaps_s(self) -> Floats:
        """The gaps between consecutive tokens of every request, pooled, request by request."""
        parts = [np.diff(self.token_times_s(i)) for i in range(len(self.osl))]
        return np.concatenate(parts) if parts else np.empty(0)


class _Steps:
    """The engine's clock: ends of all steps, kept as blocks of equal steps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.count = 0
        self._blocks: list[tuple[float, int, float, int, int]] = []

    def run(self, steps: int, duration_s: float, prefill_tok: int, running: int) -> None:
        self._blocks.append((self.now, steps, duration_s, prefill_tok, running))
        self.now += steps * duration_s
        self.count += steps

    def arrays(self) -> tuple[Floats, Ints, Ints]:
        if not self._blocks:
            return np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        begin, steps, duration, prefill, running = (
            np.array(c) for c in zip(*self._blocks, strict=True)
        )
        first = np.repeat(np.cumsum(steps) - steps, steps)
        inside = np.arange(1, self.count + 1) - first
        ends = np.repeat(begin, steps) + inside * np.repeat(duration, steps)
        return ends, np.repeat(prefill, steps), np.repeat(running, steps)


@dataclass
class _Replica:
    waiting: deque[list[int]] = field(default_factory=deque)  # [request, prompt tokens left]
    running: list[tuple[int, int]] = field(default_factory=list)  # heap of (last step, request)
    prefilling: list[list[int]] = field(default_factory=list)  # admitted, prompt not finished

    def load(self) -> int:
        return len(self.waiting) + len(self.running) + len(self.prefilling)

    def admit(self, engine: Engine, now: float, admitted: Floats) -> None:
        """Take waiting requests into free slots as far as the step's token budget reaches."""
        tokens = sum(left for _, left in self.prefilling)
        while self.waiting and len(self.running) + len(self.prefilling) < engine.max_num_seqs:
            left = self.waiting[0][1]
            full = tokens >= engine.prefill_budget_tok
            over = tokens > 0 and tokens + left > engine.prefill_budget_tok
            if full if engine.chunked else over:
                break
            tokens += left
            self.prefilling.append(self.waiting.popleft())
            admitted[self.prefilling[-1][0]] = now

    def advance(self, engine: Engine) -> tuple[int, list[int]]:
        """Prompt tokens of the next step, and the requests whose prompt ends in it."""
        budget = engine.prefill_budget_tok if engine.chunked else None
        tokens, finished = 0, []
        for entry in self.prefilling:
            take = entry[1] if budget is None else min(entry[1], budget - tokens)
            entry[1] -= take
            tokens += take
            if entry[1] == 0:
                finished.append(entry[0])
        self.prefilling = [entry for entry in self.prefilling if entry[1] > 0]
        return tokens, finished


def simulate(engine: Engine, client: Client) -> Run:
    """Run the client's requests through the engine until the last one has ended.

    Deterministic: no random numbers. The first request of a closed loop starts at 0.
    """
    total = len(client.isl)
    isl, osl = np.asarray(client.isl, np.int64), np.asarray(client.osl, np.int64)
    start, admitted, first, end = (np.full(total, np.nan) for _ in range(4))
    replica_of, first_step = np.zeros(total, np.int64), np.zeros(total, np.int64)
    replicas = [_Replica() for _ in range(engine.replicas)]
    steps = _Steps()
    arrivals: list[tuple[float, int]] = []
    if client.arrivals_s is not None:
        arrivals = [(float(t), i) for i, t in enumerate(client.arrivals_s)]
        heapq.heapify(arrivals)
        issued = total
    else:
        issued = min(client.concurrency or 0, total)
        arrivals = [(client.ramp_s * i / issued, i) for i in range(issued)]

    def finish(request: int) -> None:
        nonlocal issued
        end[request] = steps.now + client.reply_s
        if client.concurrency is not None and issued < total:
            heapq.heappush(arrivals, (end[request] + client.pause_s(issued), issued))
            issued += 1

    done = 0
    while done < total:
        while arrivals and arrivals[0][0] <= steps.now:
            at, request = heapq.heappop(arrivals)
            chosen = min(range(engine.replicas), key=lambda r: replicas[r].load())
            start[request], replica_of[request] = at, chosen
            replicas[chosen].waiting.append([request, int(isl[request])])
        for replica in replicas:
            replica.admit(engine, steps.now, admitted)
        busy = [len(replica.running) for replica in replicas]
        if any(replica.prefilling for replica in replicas):
            work = [replica.advance(engine) for replica in replicas]
            duration = max(
                engine.prefill_s(tokens) + engine.decode_s(running)
                for (tokens, _), running in zip(work, busy, strict=True)
            )
            steps.run(1, duration, sum(tokens for tokens, _ in work), sum(busy))
            for replica, (_, finished) in zip(replicas, work, strict=True):
                for request in finished:
                    first[request], first_step[request] = steps.now, steps.count - 1
                    last = steps.count + int(osl[request]) - 1
                    heapq.heappush(replica.running, (last, request))
        elif any(busy):
            duration = max(engine.decode_s(running) for running in busy)
            ahead = min(r.running[0][0] for r in replicas if r.running) - steps.count
            if arrivals:
                until = int(np.ceil((arrivals[0][0] - steps.now) / duration))
                ahead = min(ahead, max(until, 1))
            steps.run(ahead, duration, 0, sum(busy))
        else:
            steps.now = max(steps.now, arrivals[0][0])
            continue
        for replica in replicas:
            while replica.running and replica.running[0][0] <= steps.count:
                finish(heapq.heappop(replica.running)[1])
                done += 1
    ends, prefill_tok, running = steps.arrays()
    return Run(
        start, admitted, first, end, isl, osl, replica_of, first_step, ends, prefill_tok, running
    )
