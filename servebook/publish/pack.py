"""Specifications made small for the page: no key twice, the shared look once, all of them packed.

Vega-Lite repeats every field's name in every row, and Altair the whole theme in every chart; and
charts of one campaign repeat one another. So all of them stand in the page as one packed block.
``report/template/page.js`` undoes all of it before it draws; the drawings that stand there without
a script are not packed.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from servebook.publish.spec import Spec

__all__ = ["charts_text", "deflated", "pack", "packed_rows", "shared_config"]

#: The block of the page that holds the charts, as the template writes it.
_BLOCK = re.compile(r'<script type="text/plain" id="charts">([A-Za-z0-9+/=\s]*)</script>')

MOST_WORDS = 100


def _column(values: list[Any]) -> dict[str, Any]:
    texts = [json.dumps(value) for value in values]
    words = list(dict.fromkeys(texts))
    if len(words) == 1:
        return {"same": values[0]}
    if len(words) <= MOST_WORDS and sum(map(len, words)) + 3 * len(texts) < sum(map(len, texts)):
        place = {word: i for i, word in enumerate(words)}
        return {"words": [json.loads(w) for w in words], "at": [place[text] for text in texts]}
    return {"values": values}


def packed_rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as columns: ``{"n", "columns": {field: {"values"} | {"same"} | {"words", "at"}}}``.

    A field that a row lacks is null there.

    >>> packed_rows([{"a": 1, "b": 2}, {"a": 3, "b": 2}])
    {'n': 2, 'columns': {'a': {'values': [1, 3]}, 'b': {'same': 2}}}
    """
    fields = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column([row.get(name) for row in rows]) for name in fields}
    return {"n": len(rows), "columns": columns}


def shared_config(specs: Iterable[Spec]) -> dict[str, Any]:
    """The configuration that most charts have, the first of them where several are equal."""
    texts = [json.dumps(spec["config"]) for spec in specs if "config" in spec]
    return dict(json.loads(Counter(texts).most_common(1)[0][0])) if texts else {}


def pack(spec: Spec, shared: dict[str, Any]) -> Spec:
    """The specification as it stands in the page: transparent, its rows packed.

    Where its configuration is the shared one it is left out, and ``look`` says so.
    """
    small = {**spec, "background": "transparent"}
    if spec.get("config") == shared:
        del small["config"]
        small["look"] = "shared"
    if "datasets" in spec:
        small["datasets"] = {name: packed_rows(rows) for name, rows in spec["datasets"].items()}
    return small


def deflated(text: str) -> str:
    """The text as gzip in base64, for a ``<script type="text/plain">``; same text, same bytes.

    >>> gzip.decompress(base64.b64decode(deflated("a"))).decode()
    'a'
    """
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def charts_text(page: str) -> str:
    """What a finished page holds packed: the JSON of its charts; nothing where it has no block.

    Whoever looks for a text in a page must look here, too.
    """
    found = _BLOCK.search(page)
    return gzip.decompress(base64.b64decode(found[1])).decode() if found else ""
