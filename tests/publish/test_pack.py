from __future__ import annotations

from servebook.publish.pack import charts_text, deflated, pack, packed_rows, shared_config

LOOK = {"font": "Liberation Sans"}


def test_a_row_that_lacks_a_field_has_null_there() -> None:
    rows = [{"a": 1}, {"b": "x", "a": 2}]
    columns = {"a": {"values": [1, 2]}, "b": {"values": [None, "x"]}}
    assert packed_rows(rows) == {"n": 2, "columns": columns}
    assert packed_rows([]) == {"n": 0, "columns": {}}


def test_repeated_texts_stand_once() -> None:
    names = ["a long name"] * 3 + ["another long name"] * 2
    rows = [{"name": name, "same": True, "x": i} for i, name in enumerate(names)]
    assert packed_rows(rows)["columns"] == {
        "name": {"words": ["a long name", "another long name"], "at": [0, 0, 0, 1, 1]},
        "same": {"same": True},
        "x": {"values": [0, 1, 2, 3, 4]},
    }


def test_the_most_frequent_look_is_shared() -> None:
    assert shared_config([{"config": {"a": 1}}, {"config": LOOK}, {}, {"config": LOOK}]) == LOOK
    assert shared_config([{}]) == {}


def test_another_look_stays_with_its_chart() -> None:
    assert pack({"config": LOOK, "mark": "bar"}, LOOK) == {
        "mark": "bar",
        "background": "transparent",
        "look": "shared",
    }
    assert pack({"config": {"a": 1}}, LOOK)["config"] == {"a": 1}


def test_packing_leaves_the_specification_as_it_was() -> None:
    spec = {"datasets": {"d": [{"a": 1}]}, "config": LOOK}
    pack(spec, LOOK)
    assert spec == {"datasets": {"d": [{"a": 1}]}, "config": LOOK}


def test_what_is_packed_is_found_again() -> None:
    block = f'<script type="text/plain" id="charts">{deflated("naïve </script>")}</script>'
    assert charts_text(f"<p>a</p>{block}<p>b</p>") == "naïve </script>"
    assert charts_text("<p>a page without charts</p>") == ""
    assert deflated("x" * 5000) == deflated("x" * 5000)
    assert len(deflated("x" * 5000)) < 100
