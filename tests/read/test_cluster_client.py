from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from servebook.errors import DumpError, ServebookError
from servebook.read import cluster_client, cluster_worker


class NoWorkers:
    """What is used of a client whose cluster has no worker."""

    status = "running"

    def nthreads(self) -> dict[str, int]:
        return {}


def test_a_cluster_without_workers_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = cluster_client._Run(NoWorkers(), "tcp://a:1", {}, sys.stdout.buffer)
    run._look()
    monkeypatch.setattr(cluster_client, "PATIENCE_S", -1.0)
    with pytest.raises(cluster_client._StopError, match="start workers for this scheduler"):
        run._look()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (type("KilledWorker", (Exception,), {})(), "give them more memory"),
        (ModuleNotFoundError("No module named 'servebook'"), "Servebook is missing there"),
        (RuntimeError("Error during deserialization of the task graph"), "Servebook is missing"),
        (type("FutureCancelledError", (Exception,), {})(), "connection to the scheduler was lost"),
        (ZeroDivisionError("secret"), "a task failed with ZeroDivisionError"),
    ],
)
def test_failures_of_the_cluster_are_told_in_words(error: Exception, words: str) -> None:
    run = cluster_client._Run(NoWorkers(), "tcp://a:1", {}, sys.stdout.buffer)
    assert words in run._failure(error)
    assert "secret" not in run._failure(error)


def test_what_a_task_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def do(error: Exception) -> tuple[str, Any]:
        def fail() -> None:
            raise error

        monkeypatch.setattr(cluster_worker, "fail", fail, raising=False)
        name = "servebook.read.cluster_worker:fail"
        return cluster_worker.do(name, pickle.dumps(()), cluster_worker.versions())

    kind, fields = do(DumpError("a", "b", "c", "d", line=3))
    assert kind == "dump"
    assert str(DumpError(**fields)) == "a:3: expected b, found c; d"
    assert do(ServebookError("so")) == ("told", "so")
    assert do(cluster_worker.NotHereError("so")) == ("not here", "so")
    assert do(KeyError("a prompt"))[1].startswith("could not be read by a fault of Servebook (KeyE")
