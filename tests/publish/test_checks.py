from __future__ import annotations

import pytest

from servebook.publish.checks import MOST_BYTES, problems
from servebook.publish.csp import policy, script_hash
from servebook.publish.pack import deflated

SCRIPT = "const a = 1 < 2 && true;"
FIGURE = (
    '<figure id="f"><figcaption><h2>Title</h2></figcaption><div role="img" aria-label="Lines.">'
    "<svg></svg></div><table></table></figure>"
)
PACKED = f'<script type="text/plain" id="charts">{deflated("/srv/someone/data")}</script>'


def page(body: str = FIGURE, head: str = "", csp: str | None = None) -> str:
    csp = policy([SCRIPT]) if csp is None else csp
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="'
        f'Content-Security-Policy" content="{csp}">{head}</head><body><h1>Page</h1>{body}'
        f"<script>{SCRIPT}</script></body></html>"
    )


def test_a_sound_page_has_no_problems() -> None:
    assert problems(page(), ["/srv/someone"]) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<img src="https://example.org/x.png">', "<img src> points outside"),
        ('<img src="x.png">', "<img src> points outside"),
        ('<img srcset="//example.org/x 2x">', "<img srcset> points outside"),
        ('<a href="javascript:alert(1)">x</a>', "<a href> points outside"),
        ('<a href="data:text/html,x">x</a>', "<a href> points outside"),
        ('<a ping="https://example.org">x</a>', "<a ping> points outside"),
        ('<form action="/x"></form>', "<form action> points outside"),
        ('<object data="x"></object>', "<object data> points outside"),
        ('<video poster="x"></video>', "<video poster> points outside"),
        ('<button formaction="x">x</button>', "<button formaction> points outside"),
        ('<svg><use xlink:href="x.svg#a"/></svg>', "<use xlink:href> points outside"),
        ("<p style=\"background: URL( 'http://example.org' )\">x</p>", "<p style> loads"),
        ('<svg><path fill="url(https://example.org#a)"/></svg>', "<path fill> loads"),
        ("<style>@import 'x.css';</style>", "a style loads something"),
        ("<style>p { background: url(x.png) }</style>", "a style loads something"),
        ('<meta http-equiv="refresh" content="0;url=x">', "would leave the page"),
        ("<iframe></iframe>", "<iframe> may not stand"),
        ('<link rel="stylesheet">', "<link> may not stand"),
        ('<p onclick="x()">x</p>', "script in an attribute"),
        ("<script>alert(1)</script>", "a script is not in the policy"),
        ('<p id="f">x</p>' + FIGURE, "the id 'f' stands 2 times"),
        ('<a href="#nowhere">x</a>', "a link leads to #nowhere"),
        ("<h4>x</h4>", "a heading of level 4 follows one of level 1"),
        ("<h1>x</h1>", "expected one first-level heading, found 2"),
        (FIGURE.replace("Lines.", " "), "without alternative text"),
        (FIGURE.replace("<h2>Title</h2>", ""), "has no caption"),
        (FIGURE.replace("<table></table>", ""), "has no table"),
        (FIGURE.replace("<svg></svg>", ""), "has no static drawing"),
        ("<p>/srv/someone/data</p>", "a path of this machine: /srv/someone"),
        (PACKED, "a path of this machine: /srv/someone"),
    ],
)
def test_a_problem_is_named(body: str, problem: str) -> None:
    found = problems(page(body), ["/srv/someone"])
    assert any(problem in text for text in found), found


@pytest.mark.parametrize(
    "csp",
    ["default-src *", f"default-src 'none'; script-src 'unsafe-inline' {script_hash(SCRIPT)}"],
)
def test_a_weak_policy_is_a_problem(csp: str) -> None:
    assert "the content security policy is not strict" in problems(page(csp=csp))


def test_a_page_without_policy_is_a_problem() -> None:
    bare = page().replace("Content-Security-Policy", "other")
    assert "expected one content security policy, found 0" in problems(bare)


def test_size_is_bounded() -> None:
    assert any("bytes" in text for text in problems(page(f"<p>{'x' * MOST_BYTES}</p>")))


def test_json_blocks_need_no_hash_and_no_language_is_a_problem() -> None:
    assert problems(page('<script type="application/json">{"a": 1}</script>')) == []
    assert "the page does not state its language" in problems(page().replace(' lang="en"', ""))


def test_the_hash_is_that_of_the_standard() -> None:
    # The example of the CSP specification (level 3, section 8.4).
    assert script_hash("doSomething();") == "'sha256-RFWPLDbv2BY+rCkDzsE+0fr8ylGr2R2faWMhq4lfEQc='"
