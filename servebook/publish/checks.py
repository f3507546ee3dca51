"""The last look at a finished page: what a reader's browser would do with it, and what it leaks.

A page that fails a check is not published.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from lxml import etree, html

from servebook.publish.csp import script_hash
from servebook.publish.pack import charts_text

__all__ = ["MOST_BYTES", "problems"]

MOST_BYTES = 2_000_000
#: A browser runs no script element of these types: they hold data.
DATA_TYPES = ("application/json", "text/plain")
URL_ATTRIBUTES = {
    "action", "archive", "background", "cite", "classid", "codebase", "data", "dynsrc",
    "formaction", "href", "icon", "longdesc", "lowsrc", "manifest", "ping", "poster", "profile",
    "src", "srcset", "usemap", "xlink:href",
}  # fmt: skip
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
FORBIDDEN_TAGS = ("base", "iframe", "object", "embed", "link", "form", "frame", "portal")
CSS_URL = re.compile(r"url\(\s*['\"]?([^)'\"]*)", re.IGNORECASE)
CSS_IMPORT = re.compile(r"@import", re.IGNORECASE)


def _elements(root: etree._Element) -> Iterable[etree._Element]:
    found: Iterable[etree._Element] = root.iter("*")  # no comments, no processing instructions
    return found


def _inside(address: str) -> bool:
    text = address.strip()
    return text == "" or text.startswith("#") or text.lower().startswith("data:image/")


def _addresses(root: etree._Element) -> list[str]:
    found = []
    for node in _elements(root):
        for name, value in node.items():
            if (key := name.lower()) in URL_ATTRIBUTES:
                if not _inside(value):
                    found.append(f"<{node.tag} {name}> points outside the page: {value[:80]}")
            elif key.startswith("on"):
                found.append(f"<{node.tag} {name}> is a script in an attribute")
            elif "(" in value:
                outside = [u for u in CSS_URL.findall(value) if not _inside(u)]
                found += [f"<{node.tag} {name}> loads {u[:80]}" for u in outside]
        if node.tag in FORBIDDEN_TAGS:
            found.append(f"<{node.tag}> may not stand on the page")
        if node.tag == "meta" and node.get("http-equiv", "").lower() == "refresh":
            found.append("<meta http-equiv=refresh> would leave the page")
        if node.tag == "style":
            text = node.text or ""
            outside = [u for u in CSS_URL.findall(text) if not _inside(u)]
            if outside or CSS_IMPORT.search(text):
                found.append("a style loads something")
    return found


def _scripts(root: etree._Element) -> list[str]:
    policies = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    if len(policies) != 1:
        return [f"expected one content security policy, found {len(policies)}"]
    found = []
    for node in root.iter("script"):
        if node.get("type") in DATA_TYPES:
            continue
        if script_hash(node.text or "") not in policies[0]:
            found.append(f"a script is not in the policy: {(node.text or '')[:60]!r}")
    if "script-src 'unsafe" in policies[0] or "default-src 'none'" not in policies[0]:
        found.append("the content security policy is not strict")
    return found


def _figures(root: etree._Element) -> list[str]:
    found = []
    for node in root.iter("figure"):
        name = node.get("id", "without id")
        plots = node.xpath(".//*[@role='img']")
        if not node.xpath("./figcaption//*[normalize-space()]"):
            found.append(f"figure {name} has no caption")
        found += [
            f"figure {name} has a drawing without alternative text"
            for plot in plots
            if not plot.get("aria-label", "").strip()
        ]
        if plots and not node.xpath(".//svg"):
            found.append(f"figure {name} has no static drawing")
        if plots and not node.xpath(".//table"):
            found.append(f"figure {name} has no table")
        if not plots and not node.xpath(".//table | .//*[@class='missing']"):
            found.append(f"figure {name} shows nothing and does not say why")
    return found


def _structure(root: etree._Element) -> list[str]:
    ids = Counter(name for name in root.xpath("//@id") if name)
    found = [f"the id {name!r} stands {n} times on the page" for name, n in ids.items() if n > 1]
    targets = {value[1:] for value in root.xpath("//a/@href") if value.startswith("#")}
    found += [f"a link leads to #{name}, which is not there" for name in sorted(targets - set(ids))]
    if not root.get("lang"):
        found.append("the page does not state its language")
    levels = [int(node.tag[1]) for node in root.iter(*HEADINGS)]
    if levels.count(1) != 1:
        found.append(f"expected one first-level heading, found {levels.count(1)}")
    for before, after in pairwise(levels):
        if after > before + 1:
            found.append(f"a heading of level {after} follows one of level {before}")
    return found


def problems(page: str, secrets: Iterable[str] = ()) -> list[str]:
    """All reasons not to publish this page, in words; empty when it is sound.

    ``secrets`` are texts of this machine (the campaign's absolute folder, the home folder) that
    must not be in it.
    """
    root = html.document_fromstring(
        page.encode(), parser=html.HTMLParser(encoding="utf-8", huge_tree=True)
    )
    found = [*_addresses(root), *_scripts(root), *_figures(root), *_structure(root)]
    size = len(page.encode())
    if size > MOST_BYTES:
        found.append(f"the page has {size:,} bytes; {MOST_BYTES:,} are allowed")
    whole = page + charts_text(page)
    found += [f"the page shows a path of this machine: {text}" for text in secrets if text in whole]
    return found
