from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servebook.publish.prose import code_digest, with_prose_of


def _cell(kind: str, source: str | list[str], *tags: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "source": source, "metadata": {"tags": list(tags)}, **more}


def _written(path: Path, *cells: dict[str, Any], **more: Any) -> Path:
    path.write_text(json.dumps({"cells": list(cells), "nbformat": 4, **more}), encoding="utf-8")
    return path


TITLE, PARAMETERS = _cell("markdown", ["# A\n", "b"]), _cell("code", "a = 1", "parameters")
CODE = _cell("code", ["b = a\n", "b"])


def test_prose_is_no_part_of_what_runs(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.ipynb", TITLE, PARAMETERS, CODE)
    before = code_digest(path, "whole")
    assert before != "whole"
    _written(path, _cell("markdown", "# Other"), PARAMETERS, _cell("markdown", "x"), CODE)
    assert code_digest(path, "whole") == before
    _written(path, TITLE, PARAMETERS, {**CODE, "source": "b = a\nb"})  # the same text, in one piece
    assert code_digest(path, "whole") == before


@pytest.mark.parametrize(
    "cells",
    [
        [TITLE, PARAMETERS, {**CODE, "source": "b = a\nb + 1"}],
        [TITLE, PARAMETERS],
        [TITLE, CODE, PARAMETERS],
        [TITLE, PARAMETERS, CODE, CODE],
        [TITLE, {**PARAMETERS, "metadata": {}}, CODE],
        [TITLE, PARAMETERS, {**CODE, "cell_type": "raw"}],
    ],
)
def test_all_else_is(tmp_path: Path, cells: list[dict[str, Any]]) -> None:
    path = _written(tmp_path / "a.ipynb", TITLE, PARAMETERS, CODE)
    before = code_digest(path, "whole")
    assert code_digest(_written(path, *cells), "whole") != before
    assert code_digest(_written(path, TITLE, PARAMETERS, CODE, more=1), "whole") != before


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"cells": 1}', b'{"cells": [{}]}', b"\xff",
                b'{"cells": [{"cell_type": "heading", "source": ""}]}',
                b'{"cells": [{"cell_type": "code", "source": 1}]}',
                b'{"cells": [{"cell_type": "code", "source": "", "metadata": 1}]}'],
)  # fmt: skip
def test_of_another_form_the_whole_file_counts_and_it_runs(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    assert code_digest(path, "whole") == "whole"
    assert with_prose_of(path, {"cells": [CODE]}) is None


def test_what_the_code_gave_stands_between_the_prose_of_today(tmp_path: Path) -> None:
    injected = _cell("code", "a = 2", "injected-parameters", outputs=[])
    ran = {**CODE, "outputs": [1], "execution_count": 3}
    executed = {"cells": [TITLE, PARAMETERS, injected, ran], "metadata": {"papermill": {}}}
    path = _written(tmp_path / "a.ipynb", PARAMETERS, _cell("markdown", ["# B\n", "c"]), CODE)
    found = with_prose_of(path, executed)
    assert found == {
        "cells": [PARAMETERS, _cell("markdown", "# B\nc"), ran],
        "metadata": {"papermill": {}},
    }


def test_what_other_code_gave_does_not_stand(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.ipynb", TITLE, PARAMETERS, CODE)
    other = {**CODE, "source": "b = 3"}
    assert with_prose_of(path, {"cells": [TITLE, PARAMETERS, other]}) is None
    assert with_prose_of(path, {"cells": [TITLE, PARAMETERS]}) is None
    assert with_prose_of(path, {"cells": None}) is None
