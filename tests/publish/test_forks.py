"""Kernels forked from a zygote: as apart, and as short-lived, as kernels that are started."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbformat import NotebookNode

from servebook.errors import BuildError, ManifestError
from servebook.publish.execute import Run, quiet
from servebook.publish.forks import Forked, Zygote, available
from servebook.publish.making import Making
from servebook.publish.scratch import alive, scratch
from servebook.publish.together import run_all
from servebook.publish.workers import Workers

pytestmark = pytest.mark.skipif(not available(), reason="kernels are forked on Linux only")


def _helper(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


write = _helper("notebooks").write


@pytest.fixture(scope="module")
def zygote(workers: Workers) -> Zygote:
    assert workers.zygote is not None
    assert workers.zygote.ready()
    return workers.zygote


def together(paths: list[Path], zygote: Zygote, at_once: int) -> list[list[str]]:
    with scratch() as folder, quiet():
        return run_all(
            paths, {"campaign": "x"}, folder, zygote=zygote, at_once=at_once,
            finish=lambda nb, _: printed(nb), bar=lambda _: {"disable": True},
        )  # fmt: skip


def printed(nb: NotebookNode) -> list[str]:
    streams = [out for cell in nb.cells if cell.cell_type == "code" for out in cell.outputs]
    return [out.text.strip() for out in streams if out.output_type == "stream"]


def test_a_kernel_sees_nothing_of_the_one_before(zygote: Zygote, tmp_path: Path) -> None:
    source = "import altair, os\nprint(hasattr(altair, 'mark'), os.environ.get('MARK'))\n"
    source += "altair.mark = 1\nos.environ['MARK'] = 'seen'\nos.chdir('/')"
    paths = [write(tmp_path / f"{name}.ipynb", source, "print('x' in dir())") for name in "ab"]
    assert together(paths, zygote, 1) == [["False None", "False"]] * 2


def test_it_is_the_kernel_that_would_be_started(zygote: Zygote, tmp_path: Path) -> None:
    source = (
        "import os, random, sys, time\n"
        "from pathlib import Path\n"
        "names = ('SERVEBOOK_BUILD', 'PYTHONHASHSEED', 'TZ', 'LC_ALL', 'COLUMNS')\n"
        "print([os.environ[name] for name in names], hash('a'), time.tzname, Path.cwd().name)\n"
        "print(sys.path, __name__, sys.flags.hash_randomization)"
    )
    path = write(tmp_path / "same.ipynb", source)
    forked = together([path], zygote, 1)[0]
    with scratch() as folder, quiet():
        started = printed(Run(path)({"campaign": "x"}, folder))
    assert forked == started


def test_the_random_numbers_of_two_kernels_differ(zygote: Zygote, tmp_path: Path) -> None:
    source = "import random, numpy\nprint(random.random(), numpy.random.random())"
    paths = [write(tmp_path / f"{name}.ipynb", source) for name in "ab"]
    one, other = together(paths, zygote, 2)
    assert not set(one[0].split()) & set(other[0].split())


def test_what_a_cell_prints_is_one_piece_however_late_its_parts_come(
    zygote: Zygote, tmp_path: Path
) -> None:
    source = "import time\nfor name in 'abc':\n    print(name, flush=True)\n    time.sleep(0.4)"
    path = write(tmp_path / "a.ipynb", source)
    assert together([path], zygote, 1) == [["a\nb\nc"]]


def test_results_are_in_the_order_of_names(zygote: Zygote, tmp_path: Path) -> None:
    waits = {"a": 1.5, "b": 0.0, "c": 0.3}
    paths = [
        write(tmp_path / f"{name}.ipynb", f"import time; time.sleep({wait}); print('{name}')")
        for name, wait in waits.items()
    ]
    assert together(paths, zygote, 3) == [["a"], ["b"], ["c"]]


def test_a_child_that_leads_no_group_yet_is_killed() -> None:
    code = (
        "import os, signal, time\n"
        "from servebook.publish.zygote import _Children\n"
        "children = _Children()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    time.sleep(60)\n"  # as it is before it calls setsid
        "    os._exit(7)\n"
        "children.pids.add(pid)\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_DFL)\n"
        "children.kill(pid)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.strip() == str(-signal.SIGKILL)


def test_the_first_failure_by_name_is_told_and_later_notebooks_stop(
    zygote: Zygote, tmp_path: Path
) -> None:
    cells = {"a": "time.sleep(1.5); 1 / 0", "b": "1 / 0", "c": "time.sleep(600)", "d": "1"}
    paths = [
        write(tmp_path / f"{name}.ipynb", f"import time; {cell}") for name, cell in cells.items()
    ]
    start = time.monotonic()
    with pytest.raises(BuildError, match=r"notebook a\.ipynb, cell 3 .*ZeroDivisionError"):
        together(paths, zygote, 3)
    assert time.monotonic() - start < 120


@pytest.mark.parametrize(
    ("cell", "cause"),
    [
        ("exit()", "it ended the kernel"),
        ("quit", "it ended the kernel"),
        ("import os; os._exit(0)", "the kernel died in it"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the kernel died in it"),
    ],
)
def test_a_kernel_that_ends_is_a_failure(
    zygote: Zygote, tmp_path: Path, cell: str, cause: str
) -> None:
    path = write(tmp_path / "ends.ipynb", cell, "print('after')")
    with pytest.raises(BuildError, match=rf"ends\.ipynb, cell 3 .*{cause}"):
        together([path], zygote, 1)


def test_no_kernel_stays_behind(zygote: Zygote, tmp_path: Path) -> None:
    path = write(
        tmp_path / "child.ipynb",
        "import os, subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
        "print(os.getpid(), child.pid)",
    )
    pids = [int(pid) for pid in together([path], zygote, 1)[0][0].split()]
    assert gone(pids)


def test_a_notebook_of_counters_is_forked_where_they_were_measured(
    zygote: Zygote, tmp_path: Path
) -> None:
    cell = "import os\nfrom servebook.publish.chapters import {}\nprint(os.getppid())"
    paths = [write(tmp_path / f"{name}.ipynb", cell.format(name)) for name in ("fabric", "setup")]
    root = Path(__file__).parents[2] / "data" / "loopback"
    own, _ = zygote.campaign(root, root)
    with own:
        assert {"fabric", "fabric_base", "traffic"} <= own.of_counters
        assert not {"common", "overview", "setup"} & own.of_counters
        assert own.count(root, paths[1:]) is None
        counting = own.count(root, paths)
        assert counting is not None
        with counting:
            parents = [int(lines[0]) for lines in together(paths, own, 2)]
    assert parents == [counting.pid, own.pid]
    assert counting.pid != own.pid


def test_the_ledger_shows_counters_where_a_campaign_has_printed_figures(zygote: Zygote) -> None:
    data = Path(__file__).parents[2] / "data"
    shown = []
    for name in ("b300-two-nodes", "loopback"):
        own, _ = zygote.campaign(data / name, data)
        with own:
            shown.append("ledger" in own.of_counters)
    assert shown == [True, False]


def test_a_kernel_has_neither_debugger_nor_history_and_debugpy_can_be_imported(
    zygote: Zygote, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "bare.ipynb",
        "import sys\nshell = get_ipython()\n"
        "print('debugpy' in sys.modules, shell.history_manager.enabled)\n"
        "import debugpy\nprint(debugpy.__name__)",
    )
    assert together([path], zygote, 1) == [["False False\ndebugpy"]]


def test_where_measuring_counters_ended_early_the_kernel_is_forked_all_the_same(
    zygote: Zygote, tmp_path: Path
) -> None:
    cell = "import os\nfrom servebook.publish.chapters.fabric import agree\nprint(os.getppid())"
    path = write(tmp_path / "fabric.ipynb", cell)
    root = Path(__file__).parents[2] / "data" / "loopback"
    own, _ = zygote.campaign(root, root)
    with own:
        counting = own.count(root, [path])
        assert counting is not None
        os.kill(counting.pid, signal.SIGKILL)
        with counting:
            assert together([path], own, 1) == [[str(own.pid)]]


def test_a_kernel_has_no_widgets_that_no_page_shows_and_they_can_be_imported(
    zygote: Zygote, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "widgets.ipynb",
        "import sys, altair\nprint('ipywidgets' in sys.modules)\n"
        "import anywidget\nprint(anywidget.__name__)",
    )
    assert together([path], zygote, 1) == [["False\nanywidget"]]


def test_the_first_campaign_is_read_into_the_cache_while_imports_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    root = Path(__file__).parents[2] / "data" / "loopback"
    started = Zygote.start(tmp_path / "ipython", root)
    assert started is not None
    with started:
        assert started.ready()
        own, facts = started.campaign(root, root)
        own.close()
    assert facts.name == "loopback"
    assert len(list((tmp_path / "cache").rglob("*.parquet"))) > 10
    assert not list(tmp_path.glob("handed-*"))  # taken by the process that holds it


def test_that_kernels_are_started_one_by_one_is_told_once() -> None:
    said: list[str] = []
    with Workers() as own:
        assert own.zygote is not None
        os.kill(own.zygote.pid, signal.SIGKILL)
        for _ in range(2):  # of two pages of one build
            making: Any = Making.__new__(Making)
            making.site = SimpleNamespace(workers=own, report=SimpleNamespace(say=said.append))
            making._facts = making._load = making._reading = None
            making.read_ahead()
            making.read_ahead()
            assert making._reading is None
    assert said == ["kernels are started one by one: the process to fork them from ended"]


def test_a_campaign_that_cannot_be_read_is_the_same_error(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "campaign.yaml").write_text("servebook: 1\nnmae: x\n")
    with pytest.raises(ManifestError, match=r"campaign\.yaml:2") as caught:
        zygote.campaign(tmp_path, tmp_path)
    assert caught.value.line == 2


DRIVER = """
import signal, sys
from pathlib import Path
from types import SimpleNamespace
from servebook.publish.execute import Run, quiet
from servebook.publish.workers import Workers
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
with Workers() as workers, quiet():
    assert workers.zygote.ready()
    print(workers.folder, workers.zygote.pid, flush=True)
    Run(Path(sys.argv[1]))({"campaign": "x"}, workers.folder, zygote=workers.zygote)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_driver_that_is_ended(tmp_path: Path, how: signal.Signals) -> None:
    mark = tmp_path / "pid"
    path = write(
        tmp_path / "endless.ipynb",
        f"import os, pathlib; pathlib.Path({str(mark)!r}).write_text(str(os.getpid()))",
        "sum(range(10**13))",  # holds the interpreter: only the system can end it
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert driver.stdout is not None
    folder, zygote = driver.stdout.readline().split()
    deadline = time.monotonic() + 120
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    kernel = int(mark.read_text())
    driver.send_signal(how)
    driver.wait(60)
    driver.stdout.close()
    assert gone([kernel, int(zygote)])
    with scratch():  # the next build sweeps up
        assert not Path(folder).exists()


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(map(running, pids)):
        time.sleep(0.1)
    return not any(map(running, pids))


def running(pid: int) -> bool:
    try:  # a zombie is not running; whoever adopted it may be slow to take notice
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_scratch_sweeps_only_what_dead_builds_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not alive(ended.pid)
    names = {f"sb-{ended.pid}-x": False, f"sb-{os.getpid()}-x": True, "sb-other": True}
    for name in names:
        (tmp_path / name / "k").mkdir(parents=True)
    with scratch() as folder:
        assert folder.parent == tmp_path
    assert {name: (tmp_path / name).exists() for name in names} == names
    assert not folder.exists()


def test_threads_that_end_one_kernel_at_once_do_not_meet_a_closed_socket() -> None:
    class Channel:
        def ask(self, _: dict[str, int]) -> dict[str, int]:
            return {}

    for _ in range(200):
        ours, theirs = socket.socketpair()
        process = Forked(Channel(), 1, ours)  # type: ignore[arg-type]
        with ThreadPoolExecutor(4) as pool:
            waits = [pool.submit(process.wait) for _ in range(4)]
            theirs.close()
            assert [one.result(timeout=30) for one in waits] == [1] * 4
