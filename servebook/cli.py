"""The command line: thin, one function per command, imports only what the command needs."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from servebook import __version__
from servebook.errors import ServebookError

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="servebook",
        description="Raw LLM-serving benchmark and counter dumps in, one honest offline HTML out.",
    )
    parser.add_argument("--version", action="version", version=f"servebook {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    inspect = commands.add_parser("inspect", help="say what a file or tree is and holds")
    inspect.add_argument("path", type=place)
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.set_defaults(run=_inspect)

    measure = commands.add_parser("measure", help="print the metrics of each run below a path")
    measure.add_argument("path", type=place)
    measure.add_argument("--json", action="store_true", help="print JSON")
    measure.set_defaults(run=_measure)

    stalls = commands.add_parser("stalls", help="tell the stalled gaps of each run, and why")
    stalls.add_argument("path", type=place, help="a dump, a tree of dumps, or a campaign folder")
    stalls.add_argument("-o", "--output", type=Path, help="write one row per gap (Parquet)")
    stalls.set_defaults(run=_stalls)

    init = commands.add_parser("init", help="write a first campaign.yaml for the dumps in a folder")
    init.add_argument("directory", type=Path)
    init.add_argument("--force", action="store_true", help="replace an existing campaign.yaml")
    init.set_defaults(run=_init)

    ledger = commands.add_parser("ledger", help="check a campaign against its printed figures")
    ledger.add_argument("campaign", type=place)
    ledger.add_argument("--json", action="store_true", help="print JSON")
    ledger.set_defaults(run=_ledger)

    check = commands.add_parser("check", help="hold a campaign to the gates of its manifest")
    check.add_argument("campaign", type=place)
    check.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML as well")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(run=_check)

    diff = commands.add_parser("diff", help="tell what changed between two campaigns or claims")
    diff.add_argument("a", type=place, help="a campaign folder, or the claims.json of a page")
    diff.add_argument("b", type=place, help="the same of the other side")
    diff.add_argument("-o", "--output", type=Path, help="the page (default: report/diff-A-B.html)")
    diff.add_argument("--json", action="store_true", help="print JSON")
    diff.set_defaults(run=_diff)

    reconstruct = commands.add_parser(
        "reconstruct", help="make the raw dumps of a reconstructed campaign from its plan"
    )
    reconstruct.add_argument("campaigns", type=Path, nargs="*", help="default: those with a plan")
    reconstruct.add_argument("--refit", action="store_true", help="fit recipes.csv anew, first")
    reconstruct.set_defaults(run=_reconstruct)

    export = commands.add_parser("export", help="write a campaign's runs for other tools to read")
    export.add_argument("campaign", type=place)
    export.add_argument("--format", choices=["llm-d"], default="llm-d", help="default: llm-d")
    export.add_argument(
        "-o", "--output", type=Path, required=True, help=".yaml, .jsonl, .json, or a folder"
    )
    export.set_defaults(run=_export)

    cache = commands.add_parser("cache", help="say what the cache holds, or empty it")
    what = cache.add_mutually_exclusive_group()
    what.add_argument("--prune", action="store_true", help="remove what no build will use again")
    what.add_argument("--clear", action="store_true", help="remove everything that was kept")
    cache.add_argument("--json", action="store_true", help="print JSON")
    cache.set_defaults(run=_cache)

    build = commands.add_parser("build", help="build the page of each campaign")
    build.add_argument(
        "campaigns", type=place, nargs="*", help="campaign folders or their URLs (default: data/*)"
    )
    build.add_argument("-o", "--output", type=Path, default=Path("report"), help="default: report")
    build.add_argument("-f", "--force", action="store_true", help="build even if nothing changed")
    build.add_argument("-v", "--verbose", action="store_true", help="say what is being done")
    build.set_defaults(run=_build)
    for command in (diff, build):
        command.add_argument(
            "--language", default="en", help="of the page's fixed text: a file in report/text/"
        )
    for command in (inspect, measure, stalls, check, diff, build):
        command.add_argument(
            "--scheduler",
            metavar="ADDRESS",
            help="read on this Dask cluster, as tcp://10.0.0.1:8786 (default: SERVEBOOK_SCHEDULER)",
        )
    return parser


def place(text: str) -> Path | str:
    """What was typed for a file or folder: a URL (s3://bucket/runs) as it is, else a path."""
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text) else Path(text)


def _local(args: argparse.Namespace) -> None:
    """Put paths in the place of URLs, whose files are fetched; ``named`` is what to call them."""
    args.named = ""
    for name in ("path", "campaign", "campaigns", "a", "b"):
        value: Any = getattr(args, name, None)
        many = isinstance(value, list)
        if any(isinstance(one, str) for one in (value if many else [value])):
            from servebook.read.remote import local
            from servebook.read.urls import shown

            setattr(args, name, [local(one) for one in value] if many else local(value))
            args.named = "" if many else shown(value)


def _hash_ahead(args: argparse.Namespace) -> None:
    """Have the cluster, where one is asked for, take the checksums that everything begins with."""
    if not hasattr(args, "scheduler") or not os.environ.get("SERVEBOOK_SCHEDULER"):
        return
    from servebook.read.cluster_sums import hash_ahead

    given = [getattr(args, name, None) for name in ("path", "campaign", "a", "b")]
    if hasattr(args, "campaigns"):
        from servebook.publish.places import campaign_folders, home

        given += campaign_folders(args.campaigns, home())
    hash_ahead([place for place in given if place])


@contextlib.contextmanager
def _cluster(args: argparse.Namespace) -> Iterator[None]:
    """Hand the scheduler's address on to all that reads; faults of it are told before the work."""
    name = "SERVEBOOK_SCHEDULER"
    before, given = os.environ.get(name), getattr(args, "scheduler", None)
    if given is not None:
        os.environ[name] = given
    try:
        if hasattr(args, "scheduler") and os.environ.get(name):
            from servebook.read.cluster import scheduler

            scheduler()
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def _inspect(args: argparse.Namespace) -> int:
    from servebook.read.inspect import inspect, render

    found = inspect(args.path) | ({"path": args.named} if args.named else {})
    _say(json.dumps(found, indent=2) if args.json else render(found))
    return 0 if found["runs"] or found["counters"] else 1


def _measure(args: argparse.Namespace) -> int:
    from servebook.measure.report import measure, render

    found = measure(args.path)
    _say(json.dumps(found, indent=2) if args.json else render(found))
    return 0 if found["runs"] else 1


def _stalls(args: argparse.Namespace) -> int:
    from servebook.measure.stall_report import stalls

    text, n_gaps = stalls(args.path, args.output)
    _say(text)
    return 0 if n_gaps else 1


def _init(args: argparse.Namespace) -> int:
    from servebook.read.draft import draft

    _say(draft(args.directory, force=args.force))
    return 0


def _ledger(args: argparse.Namespace) -> int:
    from servebook.explain.ledger import as_json, ledger, render
    from servebook.explain.ledger_rows import read_published
    from servebook.read.campaign import load

    read_published(args.campaign)  # a wrong row is told before the dumps are read
    entries = ledger(load(args.campaign))
    _say(json.dumps(as_json(entries), indent=2) if args.json else render(entries))
    return 0 if all(entry.verdict == "ok" for entry in entries) else 1


def _check(args: argparse.Namespace) -> int:
    from servebook.publish.check import run

    text, passed = run(args.campaign, args.junit, as_json_text=args.json)
    _say(text)
    return 0 if passed else 1


def _diff(args: argparse.Namespace) -> int:
    from servebook.publish.diff import run

    _say(run(args.a, args.b, args.output, as_json_text=args.json, language=args.language))
    return 0


def _reconstruct(args: argparse.Namespace) -> int:
    from servebook.explain.reconstruct.generate import reconstruct

    _say(reconstruct(args.campaigns, refit=args.refit))
    return 0


def _export(args: argparse.Namespace) -> int:
    from servebook.publish.export import export

    _say(export(args.campaign, args.output))
    return 0


def _cache(args: argparse.Namespace) -> int:
    from servebook.publish.cache_report import remove, render, report

    found = remove(stale_only=args.prune) if args.clear or args.prune else report()
    _say(json.dumps(found, indent=2) if args.json else render(found))
    return 1 if (found["removed"] or {}).get("kept") else 0


def _build(args: argparse.Namespace) -> int:
    from servebook.publish.fresh import up_to_date
    from servebook.publish.places import campaign_folders, home

    base = home()
    left = []
    for root in campaign_folders(args.campaigns, base):
        page = None if args.force else up_to_date(root, base, args.output, args.language)
        if page is None:
            left.append(root)
        else:
            print(page)
            _say(f"servebook: {root.name} is up to date (--force builds it anyway)", error=True)
    if not left:
        return 0
    from servebook.publish.build import build

    # On its way out Python looks through all that was imported for cycles, twice.
    atexit.register(gc.freeze)
    return build(left, args.output, args.verbose, language=args.language, force=args.force)


def _say(text: str, error: bool = False) -> None:
    """Print ``text`` line by line, without characters that would steer the terminal."""
    stream = sys.stderr if error else sys.stdout
    for line in text.split("\n"):
        print("".join(c if c.isprintable() else "\ufffd" for c in line), file=stream)


def _drop_output() -> None:
    """Let what is left in the buffer go nowhere: flushing it at exit would fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. User errors print one line on stderr."""
    args = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the locale cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        with _cluster(args):
            _local(args)
            _hash_ahead(args)
            code: int = args.run(args)
        if sys.stdout is not None:  # a shell can close it
            sys.stdout.flush()
    except ServebookError as error:
        _say(f"servebook: {error}", error=True)
        return error.exit_code
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        _drop_output()
        _say(f"servebook: {error.filename or 'output'}: {error.strerror}", error=True)
        return 1
    except KeyboardInterrupt:
        _say("servebook: interrupted", error=True)
        return 130
    return code
