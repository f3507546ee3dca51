"""The page: our nbconvert template, filled with the chapters.

nbconvert's HTML exporter rewrites the whole page through an HTML parser (which changes SVG
attributes and may change a script, and with it the hash that the policy names), and its other
templates load from elsewhere; so this is a plain template exporter with automatic escaping, the
template in ``report/template/`` and two filters of ours.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from nbconvert.exporters.templateexporter import TemplateExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from servebook.measure.glossary import entry
from servebook.measure.metrics import METRICS
from servebook.publish import columns, text, words
from servebook.publish.about import About
from servebook.publish.collect import Chapter, Content
from servebook.publish.csp import policy
from servebook.publish.names import ABSENT, KINDS, UNITS
from servebook.publish.pack import deflated, pack, shared_config

__all__ = [
    "MOST_ROWS",
    "OPEN_ROWS",
    "coded",
    "counted",
    "echoes",
    "exact",
    "headline",
    "json_block",
    "markdown",
    "prepare",
    "render",
    "repeated",
]

#: The scripts at the end of the page, in the order in which they run; and one before its body.
SCRIPTS = ("page.js", "linked.js", "tools.js", "zoom.js")
ARRIVING = "arriving.js"

MOST_ROWS = 100
OPEN_ROWS = 12  # a table without a chart is folded when it is longer, unless it asks to be open
_CODED = re.compile(r"`([^`]+)`")


class _Renderer(IPythonRenderer):
    """Markdown of our notebooks: raw HTML escaped, headings one level down, addresses as text."""

    def __init__(self, prefix: str) -> None:
        super().__init__(escape=True, exclude_anchor_links=True)
        self.prefix = prefix

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        shown = min(level + 1, 6)
        if level == 1:  # the chapter's own heading comes from the template
            return ""
        slug = re.sub(r"[\W_]+", "-", re.sub(r"<[^>]+>", "", text).lower()).strip("-")
        return f'<h{shown} id="{self.prefix}-{slug}">{text}</h{shown}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        if url.startswith("#"):
            return f'<a href="{Markup.escape(url)}">{text}</a>'
        return text if text == url else f"{text} ({Markup.escape(url)})"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return str(Markup.escape(text))


def markdown(source: str, prefix: str = "text") -> Markup:
    """Markdown as HTML; heading ids start with ``prefix``."""
    html: str = MarkdownWithMath(renderer=_Renderer(prefix)).render(source)
    return Markup(html)


def coded(text: str) -> Markup:
    """A sentence as HTML, escaped; what stands between backticks is set as code.

    >>> str(coded("`gpus:` of a < b"))
    '<code>gpus:</code> of a &lt; b'
    """
    return Markup(_CODED.sub(r"<code>\1</code>", str(Markup.escape(text))))


@functools.cache
def _highlighting() -> tuple[PythonLexer, HtmlFormatter[str]]:
    """Lexer and formatter: making them takes longer than what they do for a cell."""
    return PythonLexer(), HtmlFormatter(nowrap=True)


def code(source: str) -> Markup:
    """Python source as highlighted HTML."""
    return Markup(highlight(source, *_highlighting()).rstrip("\n"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=False)


def json_block(value: Any) -> Markup:
    r"""JSON for a ``<script type="application/json">``: no character in it can end the script.

    >>> print(json_block({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = _json(value)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def headline(value: float, unit: str) -> str:
    """A statement's number in large type: a ratio as a factor, a fraction as percent.

    Rounded as in the sentence beside it, so that the two read the same.

    >>> headline(5.32, "ratio"), headline(0.078, "fraction"), headline(41533.0, "tokens/s")
    ('5.3×', '7.8 %', '41,533')
    >>> headline(9.1e-8, "fraction"), headline(0.0, "fraction"), headline(2e-5, "s")
    ('< 0.01 %', '0 %', '< 0.0001')
    """
    if unit == "fraction":
        return "< 0.01 %" if 0 < abs(value) < 1e-4 else words.percent(value)
    if unit == "ratio":
        return f"{words.factor(value).removeprefix('×')}×"
    return "< 0.0001" if 0 < abs(value) < 1e-4 else words.number(value)


def counted(noun: str | None, n: int) -> str:
    """What a statement's n counts, in the singular where there is one of it.

    >>> counted("runs", 1), counted("runs", 2), counted("repeats of 3 runs", 1), counted(None, 1)
    ('run', 'runs', 'repeat of 3 runs', '')
    """
    if known := text.spoken().texts.get(f"counted.{noun}.{'one' if n == 1 else 'many'}"):
        return known
    first, space, rest = (noun or "").partition(" ")
    return (first.removesuffix("s") if n == 1 else first) + space + rest


def meaning(column: str) -> str:
    """The definition behind a table's column, for its tooltip; empty where none is known."""
    found = entry(column)
    if found is None:
        return ""
    label, definition, source = map(words.told, (found.label, found.definition, found.source))
    return text.say("figure.meaning", label=label, definition=definition, source=source)


def in_cell(cell: str, column: str, tight: bool) -> str:
    """What a cell of a table says, where columns are ``tight`` as a name that may break."""
    told = words.told(words.unit(cell) if column in UNITS else cell)
    return columns.breakable(told) if tight else told


def exact(value: float | None, shown: str) -> str:
    """A number's full value where the text that is shown for it has lost digits, else nothing.

    >>> exact(12345.6, "12,346"), exact(12346, "12,346"), exact(-0.5, "−0.5"), exact(None, "–")
    ('12345.6', '', '', '')
    """
    if value is None:
        return ""
    try:
        same = float(shown.replace(",", "").replace("−", "-")) == value
    except ValueError:
        same = False
    return "" if same else repr(value)


def _description(content: Content, about: About, texts: text.Catalogue) -> str:
    """Title, provenance and verdict sentences: what a preview shows that reads no further."""
    if about.reconstructed:
        standing = texts("page.reconstructed")
    else:
        standing = texts("page.measured" if about.provenance == "measured" else "page.not_stated")
    found = [str(verdict["sentence"]) for verdict in content.verdicts]
    return texts(
        "page.description",
        title=about.title,
        provenance=standing,
        findings=" ".join(found) or texts("page.no_findings"),
    )


def repeated(content: Content) -> dict[str, list[str]]:
    """The notes of each figure that an earlier figure of its chapter has, too: they are folded."""
    seen: set[tuple[str, str]] = set()
    found = {}
    for figure in content.figures:
        notes = list(figure.fields["notes"])
        found[figure.id] = [note for note in notes if (figure.chapter, note) in seen]
        seen |= {(figure.chapter, note) for note in notes}
    return found


def echoes(chapters: list[Chapter]) -> frozenset[str]:
    """The figures that have nothing but a reason, where the same words stand just above already.

    That is in a statement or in the figure before; prose in between begins something new.
    """
    found: set[str] = set()
    for chapter in chapters:
        by_id = {figure.id: figure.fields for figure in chapter.figures}
        before = ""
        for cell in chapter.cells:
            if cell.cell_type != "code":
                before = ""
                continue
            for output in cell.outputs:
                data = output.get("data", {})
                if KINDS["figure"] in data:
                    name = data[KINDS["figure"]]["id"]
                    bare = by_id[name]["missing"] if not by_id[name]["table"] else ""
                    if bare and bare == before:
                        found.add(name)
                    before = bare
                elif KINDS["statement"] in data:
                    before = data[KINDS["statement"]]["sentence"]
    return frozenset(found)


#: Marks that turn the direction of the text after them: a name with one would turn the sentence.
_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def unturned(html: str) -> str:
    r"""The text without marks that turn its direction; letters have their direction by themselves.

    >>> unturned("exe\u202egnp.\u2066 at 8 in flight")
    'exegnp. at 8 in flight'
    """
    return _TURNS.sub("", html)


class _Exporter(TemplateExporter):
    file_extension = ".html"
    output_mimetype = "text/html"

    def _preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        # Cells were made for the page: nbconvert would only copy them, and validate each copy.
        return nb, resources

    def _create_environment(self) -> jinja2.Environment:
        environment: jinja2.Environment = super()._create_environment()  # type: ignore[no-untyped-call]
        environment.autoescape = True
        environment.undefined = jinja2.StrictUndefined
        environment.trim_blocks = environment.lstrip_blocks = True
        environment.filters |= {
            "prose": markdown,
            "code": code,
            "coded": coded,
            "column": text.column,
            "counted": counted,
            "in_cell": in_cell,
            "json_block": json_block,
            "laid_out": columns.laid_out,
            "exact": exact,
            "headline": headline,
            "mark": words.mark,
            "meaning": meaning,
            "number": words.number,
            "told": words.told,
            "unbroken": words.unbroken,
            "unit": functools.partial(text.called, "units"),
        }
        return environment


_SIZE = re.compile(r'<svg\b[^>]*? width="([\d.]+)" height="([\d.]+)"')


def drawn_size(svg: str) -> str:
    """How many pixels a drawing takes, as CSS: a browser knows its place without looking into it.

    >>> drawn_size('<svg xmlns="http://www.w3.org/2000/svg" width="640" height="310.5">')
    '--w:640;--h:310.5'
    >>> drawn_size("")
    ''
    """
    found = _SIZE.match(svg)
    return f"--w:{found[1]};--h:{found[2]}" if found else ""


def _asset(template: Path, name: str) -> str:
    return (template / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def render(
    content: Content, about: About, bundle: str, template: Path, language: str = text.DEFAULT
) -> str:
    """The whole page as one HTML text.

    ``bundle`` is the Vega script; ``template`` the folder of the nbconvert template, beside which
    ``text/`` holds the fixed text of each ``language``. Same arguments, same text. The bundle and
    the charts' specifications are packed and stand there as data: the page's own script unpacks
    them when the first chart comes into view, and runs the bundle, which the policy allows by the
    hash of the unpacked text.
    """
    arriving, *scripts = (_asset(template, name) for name in (ARRIVING, *SCRIPTS))
    texts = text.load(template.parent / "text", language)
    look = shared_config(figure.spec for figure in content.figures if figure.spec)
    again = repeated(content)
    echoed = echoes(content.chapters)
    figures = {
        figure.id: {
            **figure.fields,
            "svg": Markup(figure.svg),
            "size": drawn_size(figure.svg),
            "spec": figure.spec is not None,
            "choices": "choices" in ((figure.spec or {}).get("usermeta") or {}),
            "chapter": figure.chapter,
            "again": again[figure.id],
            "echoes": figure.id in echoed and figure.spec is None,
        }
        for figure in content.figures
    }
    charts = {f.id: pack(f.spec, look) for f in content.figures if f.spec}
    page = {
        "about": {**asdict(about), "reconstructed": about.reconstructed},
        "absent": ABSENT,
        "arriving": Markup(arriving),
        "chapters": [{"slug": c.slug, "title": c.title} for c in content.chapters],
        "bundle": deflated(bundle),
        "charts": deflated(unturned(_json({"look": look, "charts": charts}))),
        "csp": policy([bundle, arriving, *scripts]),
        "description": _description(content, about, texts),
        "figures": figures,
        "kinds": KINDS,
        "labels": {name: metric.label for name, metric in METRICS.items()},
        "most_rows": MOST_ROWS,
        "open_rows": OPEN_ROWS,
        "scripts": [Markup(script) for script in scripts],
        "style": Markup(_asset(template, "page.css")),
        "text": texts,
        "verdicts": content.verdicts,
    }
    cells = [cell for one in content.chapters for cell in one.cells]
    whole = NotebookNode(nbformat=4, nbformat_minor=5, metadata=NotebookNode(), cells=cells)
    exporter = _prepared.pop(template, None) or _exporter(template)
    with text.speaking(texts):
        text.as_written(one["label"] for one in about.configurations)  # cells of tables hold them
        html, _ = exporter.from_notebook_node(whole, resources={"page": page})
    return unturned(str(html).rstrip("\n")) + "\n"


_prepared: dict[Path, _Exporter] = {}


def prepare(template: Path) -> None:
    """Have ready what the next ``render`` needs, while there is nothing to render yet."""
    exporter = _prepared[template] = _exporter(template)
    for part in sorted(template.glob("*.j2")):  # each is compiled when it is first asked for
        exporter.environment.get_template(part.name)
    code("a = 1")  # what Pygments and mistune look for is compiled for the first text
    markdown("a")


def _exporter(template: Path) -> _Exporter:
    exporter = _Exporter(  # type: ignore[no-untyped-call]
        template_name=template.name, extra_template_basedirs=[str(template.parent)]
    )
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    _ = exporter.template  # which reads and compiles it
    return exporter
