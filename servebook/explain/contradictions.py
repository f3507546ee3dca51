"""Where printed figures contradict one another: the arithmetic, on the print and on the dumps.

A campaign says in ``contradictions.csv`` which statement it doubts and by which sum. Each sum is
evaluated twice: with the printed figures, and with what the ledger computed for the same figures,
so that neither is bent to the other. ``arithmetic`` holds numbers, + - * /, parentheses, printed
figures as ``[figure id]`` and columns of run metrics as ``[run_id:column]``; the latter were not
printed, so that such a sum has a computed value only.

Own code: the evaluator is the standard library's ``ast`` with four operators; a library for
formulas would allow more than a campaign's file may say.
"""

from __future__ import annotations

import ast
import csv
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from servebook.errors import DumpError
from servebook.explain.ledger import Entry
from servebook.measure.runs import run_metrics
from servebook.read.campaign import Campaign

__all__ = ["CONTRADICTIONS", "Sum", "contradictions", "evaluate", "read_sums"]

CONTRADICTIONS = "contradictions.csv"
_COLUMNS = ("point", "statement", "quantity", "arithmetic", "unit", "says")
_REFERENCE = re.compile(r"\[([^\[\]]+)\]")
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_LONGEST = 500  # characters of one sum
_WAY_OUT = "write numbers, + - * /, parentheses, [figure id] and [run_id:column]"


@dataclass(frozen=True)
class Sum:
    """One line of ``contradictions.csv``."""

    line: int
    point: str
    statement: str  # what is printed, in a few words
    quantity: str  # what the sum gives
    arithmetic: str
    unit: str
    says: str  # what follows from it


def read_sums(campaign: Path) -> tuple[Sum, ...]:
    """The campaign's sums in file order; none where the file is not there.

    Raises DumpError with the line for a missing column and for arithmetic that is none.
    """
    path = campaign / CONTRADICTIONS
    if not path.is_file():
        return ()
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            lacking = [c for c in _COLUMNS if c not in (rows.fieldnames or ())]
            if lacking:
                wanted = f"the columns {', '.join(_COLUMNS)}"
                raise DumpError(path, wanted, f"no {lacking[0]}", "add it", line=1)
            found = [
                Sum(rows.line_num, **{c: (row[c] or "").strip() for c in _COLUMNS}) for row in rows
            ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DumpError(path, "a CSV file in UTF-8", str(error), "save it again") from error
    for one in found:
        try:
            evaluate(one.arithmetic, lambda _: 1.0)
        except ValueError as error:
            raise DumpError(path, "a sum", str(error), _WAY_OUT, line=one.line) from error
    return tuple(found)


def evaluate(arithmetic: str, value_of: Callable[[str], float]) -> float:
    """The sum's value; ``value_of`` gives that of a reference. NaN for a division by zero.

    Raises ValueError for text that is not such a sum.
    """
    if len(arithmetic) > _LONGEST:
        raise ValueError(f"a sum of {len(arithmetic)} characters")
    names: list[str] = []

    def name(match: re.Match[str]) -> str:
        names.append(match[1])
        return f" _{len(names) - 1} "

    try:
        tree = ast.parse(_REFERENCE.sub(name, arithmetic).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{arithmetic!r}") from None

    def value(node: ast.expr) -> float:
        match node:
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                one, two = value(left), value(right)
                if isinstance(op, ast.Div) and two == 0:
                    return math.nan
                return _OPERATORS[type(op)](one, two)
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.Constant(int() | float() as number) if not isinstance(number, bool):
                return float(number)
            case ast.Name(known) if re.fullmatch(r"_\d+", known) and int(known[1:]) < len(names):
                return value_of(names[int(known[1:])])
        raise ValueError(f"{ast.unparse(node)!r} in {arithmetic!r}")

    return value(tree)


def contradictions(campaign: Campaign, entries: Sequence[Entry]) -> pd.DataFrame:
    """One row per sum: point, statement, quantity, unit, from_print, computed, says, runs, why.

    ``entries`` is the campaign's ledger. ``from_print`` is NaN where a part was not printed,
    ``computed`` where a part could not be computed, with the words in ``why``. Raises DumpError
    for a reference to a figure that is not in ``published.csv``.
    """
    known = {entry.printed.id: entry for entry in entries}
    metrics = run_metrics(campaign.tables).set_index("run_id")
    rows = []
    for one in read_sums(campaign.root):
        runs: set[str] = set()
        why: list[str] = []
        for reference in _REFERENCE.findall(one.arithmetic):
            if reference not in known and ":" not in reference:
                path = campaign.root / CONTRADICTIONS
                raise DumpError(path, "a printed figure", reference, _WAY_OUT, line=one.line)

        def printed(reference: str) -> float:
            return known[reference].printed.value if reference in known else math.nan

        def computed(reference: str, runs: set[str] = runs, why: list[str] = why) -> float:
            if reference in known:
                entry = known[reference]
                runs.update(entry.found.runs if entry.found else ())
                why += [f"{reference}: {entry.why}"] if entry.why else []
                return math.nan if entry.computed is None else entry.computed
            run, _, column = reference.rpartition(":")
            if run not in metrics.index or column not in metrics:
                why.append(f"the campaign has no {reference}")
                return math.nan
            runs.add(run)
            return float(metrics[column][run])

        rows.append(
            {
                "point": one.point,
                "statement": one.statement,
                "quantity": one.quantity,
                "unit": one.unit,
                "from_print": evaluate(one.arithmetic, printed),
                "computed": evaluate(one.arithmetic, computed),
                "says": one.says,
                "arithmetic": one.arithmetic,
                "runs": tuple(sorted(runs)),
                "why": "; ".join(dict.fromkeys(why)),
            }
        )
    columns = ["point", "statement", "quantity", "unit", "from_print", "computed", "says"]
    return pd.DataFrame(rows, columns=[*columns, "arithmetic", "runs", "why"])
