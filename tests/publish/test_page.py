from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from servebook.errors import BuildError
from servebook.publish.about import About
from servebook.publish.collect import MOST_VERDICTS, chapter, collect
from servebook.publish.display import payload
from servebook.publish.names import KINDS
from servebook.publish.output import Figure, Statement
from servebook.publish.page import echoes, json_block, markdown, render, repeated


def shown(kind: str, **fields: object) -> object:
    return new_output("execute_result", data={KINDS[kind]: fields, "text/plain": "x"})


def verdict(name: str, rank: int, figure: str = "") -> object:
    return shown("statement", id=name, verdict=True, rank=rank, figure=figure)


def notebook(*outputs: object, source: str = "topic.call(book)") -> object:
    return new_notebook(
        cells=[
            new_markdown_cell("# The *topic*\n\nA question?"),
            new_code_cell(
                'campaign = "../data/loopback"\nlevels = 3', metadata={"tags": ["parameters"]}
            ),
            new_code_cell('campaign = "/srv/x/c"', metadata={"tags": ["injected-parameters"]}),
            new_code_cell(source, outputs=list(outputs)),
        ]
    )


PATH = SimpleNamespace(name="03-topic.ipynb", stem="03-topic")


def test_a_chapter_shows_the_campaign_in_readable_spelling() -> None:
    one = chapter(notebook(verdict("a", 1)), PATH, "../data/mine")  # type: ignore[arg-type]
    assert (one.slug, one.title) == ("03-topic", "The topic")
    assert [cell.id for cell in one.cells] == ["03-topic-1", "03-topic-2"]
    assert one.cells[1].source == 'campaign = "../data/mine"\nlevels = 3\n\ntopic.call(book)'
    assert one.cells[0].metadata.servebook.first
    assert one.cells[1].metadata.servebook.last


def test_a_notebook_without_title_is_no_chapter() -> None:
    nb = new_notebook(cells=[new_markdown_cell("## Second level")])
    with pytest.raises(BuildError, match="it has no heading"):
        chapter(nb, PATH, "c")  # type: ignore[arg-type]


def test_verdicts_are_ordered_and_at_most_seven() -> None:
    outputs = [verdict(f"v{i}", 9 - i) for i in range(9)]
    content = collect([chapter(notebook(*outputs), PATH, "c")])  # type: ignore[arg-type]
    assert [one["id"] for one in content.verdicts] == [f"v{i}" for i in range(8, 1, -1)]
    assert len(content.verdicts) == MOST_VERDICTS


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([verdict("a", 1), verdict("a", 2)], "the id 'a' is used twice"),
        ([verdict("a", 1, figure="b")], "names the figure 'b', which no notebook shows"),
        ([verdict("A b", 1)], "the id 'A b' is not a slug"),
    ],
)
def test_ids_must_be_sound(outputs: list[object], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        collect([chapter(notebook(*outputs), PATH, "c")])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("# Title", ""),
        ("## What *it* says", '<h3 id="t-what-it-says">What <em>it</em> says</h3>\n'),
        ("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>"),
        ("a <b>b</b>", "<p>a &lt;b&gt;b&lt;/b&gt;</p>\n"),
        ("[see](https://example.org/a)", "<p>see (https://example.org/a)</p>\n"),
        ("[see](#figure-a)", '<p><a href="#figure-a">see</a></p>\n'),
        ("![alt](x.png)", "<p>alt</p>\n"),
    ],
)
def test_markdown_holds_no_html_and_no_address(source: str, html: str) -> None:
    assert markdown(source, "t").strip() == html.strip()


def test_a_note_is_folded_where_a_figure_of_its_chapter_has_it() -> None:
    def figure(name: str, *notes: str) -> object:
        return shown("figure", id=name, notes=list(notes))

    first = chapter(notebook(figure("a", "x", "y"), figure("b", "y", "z")), PATH, "c")  # type: ignore[arg-type]
    other = SimpleNamespace(name="04-other.ipynb", stem="04-other")
    second = chapter(notebook(figure("c", "y")), other, "c")  # type: ignore[arg-type]
    assert repeated(collect([first, second])) == {"a": [], "b": ["y"], "c": []}


def test_cells_show_labels_of_configurations_as_they_are_written(
    project_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "template").symlink_to(project_root / "report" / "template")
    english = (project_root / "report" / "text" / "en.yaml").read_text(encoding="utf-8")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "en.yaml").write_text(english, encoding="utf-8")
    other = english.replace("'{n} slots'", "'{n} Plätze'")
    (tmp_path / "text" / "de.yaml").write_text(other, encoding="utf-8")
    cells = pd.DataFrame({"a": ["16 slots, late", "9 slots"]})
    _, fields = payload(Figure("f", "T", table=cells, source="s"))
    made = shown("figure", **fields)
    content = collect([chapter(notebook(made), PATH, "c")])  # type: ignore[arg-type]
    labels = ({"name": "late", "label": "16 slots, late"},)
    facts = About("x", "X", "measured", "", (), (), {"servebook": "1"}, "c", configurations=labels)
    page = render(content, facts, "", tmp_path / "template", "de")
    assert ">16 slots, late</th>" in page
    assert ">9 Plätze</th>" in page


def test_json_cannot_end_its_script() -> None:
    text = json_block({"a": "</script><!-- & \u2028"})
    assert text == '{"a":"\\u003c/script\\u003e\\u003c!-- \\u0026 \\u2028"}'


def test_a_reason_that_stands_just_above_is_not_said_again(project_root: Path) -> None:
    def bare(name: str, why: str) -> object:
        return shown("figure", **payload(Figure(name, name, missing=why))[1])

    said = shown("statement", **payload(Statement("s", "No price."))[1])
    cells = [
        new_markdown_cell("# T"),
        new_code_cell("a", outputs=[said]),
        new_code_cell("b", outputs=[bare("after-statement", "No price.")]),
        new_code_cell("c", outputs=[bare("the-same", "No price."), bare("other", "No limits.")]),
        new_markdown_cell("Something new."),
        new_code_cell("d", outputs=[bare("after-prose", "No limits.")]),
    ]
    path = SimpleNamespace(name="03-topic.ipynb", stem="03-topic")
    content = collect([chapter(new_notebook(cells=cells), path, "c")])  # type: ignore[arg-type]
    assert echoes(content.chapters) == {"after-statement", "the-same"}
    about = About("x", "X", "measured", "", (), (), {"servebook": "1"}, "c")
    page = render(content, about, "", project_root / "report" / "template")
    assert page.count('<p class="missing">No limits.</p>') == 2
    assert '<p class="missing">No price.</p>' not in page
    assert page.count('<p class="missing">Nothing to show, for the reason just given.</p>') == 2
