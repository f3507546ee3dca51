from __future__ import annotations

from typing import Any

import pytest

from servebook.read.values import model_name

HASH = "f710177d938eff80b684d42c5aa84b382612f21f"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("org/model", "org/model"),
        ("/srv/models/model-8b/", "model-8b"),
        ("C:\\models\\model-8b", "model-8b"),
        (f"/models/models--Org--Model-M2.5/snapshots/{HASH}/", "Org/Model-M2.5"),
        (f"models--Org--Model--Chat/snapshots/{HASH}", "Org/Model--Chat"),
        (f"~/.cache/huggingface/hub/models--Org--Model/snapshots/{HASH}", "Org/Model"),
        ("/cache/models--Org--Model", "Org/Model"),
        ("https://host.example/v1/model", "model"),
        ("", None),
        ("/", None),
        (7, None),
        (None, None),
    ],
)
def test_a_models_name_and_no_folders_of_a_machine(written: Any, name: str | None) -> None:
    assert model_name(written) == name
