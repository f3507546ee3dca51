from __future__ import annotations

import pytest
from lxml import etree

from servebook.publish.svg import compact, headed

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
HEAD += 'class="marks" width="100" height="50" viewBox="0 0 100 50">'


def drawn(body: str) -> str:
    return compact(f"{HEAD}{body}</svg>", "fig-")


def test_ids_get_the_figures_prefix_and_references_follow() -> None:
    svg = drawn(
        '<defs><clipPath id="clip0"><rect width="1" height="1"/></clipPath></defs>'
        '<g clip-path="url(#clip0)"><path d="M0,0L1,1"/></g>'
    )
    assert 'id="fig-clip0"' in svg
    assert 'clip-path="url(#fig-clip0)"' in svg


@pytest.mark.parametrize(
    ("body", "gone"),
    [
        ("<script>alert(1)</script>", "script"),
        ('<g onclick="alert(1)"><path d="M0,0L1,1"/></g>', "onclick"),
        ('<a xlink:href="https://example.org"><path d="M0,0L1,1"/></a>', "example.org"),
        ('<image xlink:href="https://example.org/x.png"/>', "example.org"),
        ("<foreignObject><b>x</b></foreignObject>", "foreignObject"),
        ('<path class="background" d="M0,0h0v0h0Z"/>', "<path"),
        ('<path display="none" d="M0,0L1,1"/>', "<path"),
        ('<rect width="100" height="50" fill="white"/>', "<rect"),
        ('<g role="x" aria-label="Y"><path d="M0,0L1,1"/></g>', "aria-label"),
    ],
)
def test_only_drawing_survives(body: str, gone: str) -> None:
    assert gone not in drawn(body)


def test_coordinates_lose_what_nobody_sees() -> None:
    svg = drawn('<path d="M1.23456,0A1e-7,2.5,0" transform="translate(3.14159,2)"/>')
    assert 'd="M1.2,0A0,2.5,0"' in svg
    assert 'transform="translate(3.1,2)"' in svg


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M0,65L1.6,65L1.6,65L3.2,65L3.2,55", "M0,65h3.2v-10"),
        ("M0,0L1,0L0,0", "M0,0h1h-1"),
        ("M0.04,10.04L-0.3,9L1.25,9.11", "M0,10l-.3-1l1.5,.1"),
        ("M1,1L2,2ZM3,3L4,4", "M1,1l1,1ZM3,3l1,1"),
        ("M1,1L2,2Z", "M1,1l1,1Z"),
        ("M5,5", "M5,5h0"),
    ],
)
def test_polylines_take_short_steps(path: str, short: str) -> None:
    assert f'd="{short}"' in drawn(f'<path d="{path}"/>')


def test_one_font_stands_once() -> None:
    text = '<text font-family="Liberation Sans" x="1">a &lt;b&gt;</text>'
    svg = drawn(text * 2)
    assert svg.count("font-family") == 1
    assert "a &lt;b&gt;" in svg
    assert etree.fromstring(svg).get("font-family") == "Liberation Sans"


def test_an_entity_is_not_expanded() -> None:
    bomb = '<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    svg = compact(f"{bomb}{HEAD}<text>&x;</text></svg>", "f-")
    assert "ENTITY" not in svg


def test_a_heading_stands_above_a_chart_that_stays_as_it_is() -> None:
    chart = (
        f'{HEAD}<rect width="100" height="50" fill="#fff"/>'
        '<g transform="translate(5,5)"><path d="M0,0L1,1"/></g></svg>'
    )
    heading = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="240" height="30" viewBox="0 0 240 30">'
        '<g transform="translate(4,25)"><g class="mark-group role-frame root">'
        '<g class="mark-group role-title"><text>Long title</text></g></g></g></svg>'
    )
    root = etree.fromstring(headed(chart, heading))
    rect, drawing, above = root
    # The wider of 100 and 240; 50 of the chart, and 25 above it.
    assert (root.get("width"), root.get("height")) == ("240", "75")
    assert root.get("viewBox") == "0 0 240 75"
    assert (rect.get("width"), rect.get("height")) == ("240", "75")
    assert drawing.get("transform") == "translate(0,25) translate(5,5)"
    assert drawing[0].get("d") == "M0,0L1,1"
    assert above.get("transform") == "translate(4,25)"
    assert "".join(above.itertext()) == "Long title"
