from __future__ import annotations

import pytest
from lxml import etree

from servebook.publish.svg import compact

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
    svg = drawn('<path d="M0.123456,10.04L-0.001,1e-7" transform="translate(3.14159,2)"/>')
    assert 'd="M0.1,10L0,0"' in svg
    assert 'transform="translate(3.1,2)"' in svg


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
