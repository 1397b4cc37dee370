"""For MkDocs: what the pages hold for a forge, as a site that needs no network."""

import html
import re
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urljoin

from latex2mathml.converter import convert
from markdown.extensions import Extension
from mkdocs.utils import get_relative_url

from rarefeat.figures.style import project_style
from rarefeat.studies.imbalance.figures import gate
from rarefeat.training.native_cache import compile_once
from rarefeat.workflow.files.published import PublishedTables

DOCS = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]+)(#[^)]*)?\)")
COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL)
DETAILS = re.compile(
    r"^<details>\n<summary>(.*?)</summary>\n(.*?)^</details>\n", re.DOTALL | re.MULTILINE
)
FIGURE = re.compile(r"<p>(<img [^>]*>)</p>\s*(?:<p><em>(.*?)</em></p>)?", re.DOTALL)
DRAWING = re.compile(r'<img [^>]*src="([^"]*)/figures/(\w+)\.svg"[^>]*>')
BITMAP = re.compile(r'src="[^"]*/figures/([\w-]+\.png)"')
EMBEDDED = re.compile(
    r'<p>(<a href="([^"]*(?:play|save)\.html)">Open the interactive page</a>\.)</p>'
)
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*(\\\(|\\\[)(.*?)(?:\\\)|\\\])\s*</\1>', re.DOTALL
)


FRAGMENT = re.compile(r'<p><a href="[^"]*?(\w+\.html)">The table[^<]*</a></p>')
"""A link that stands alone: what it leads to takes its place."""
TABLE = re.compile(r'<div id="claim-filter">.*</table>', re.DOTALL)
"""The part of its page that is taken."""
ANCHOR = re.compile(r'<tr id="([^"]*)"')
CITE = "how to cite"
"""Words of the foot, and the heading of the home page that they lead to."""
CARD = "assets/card.png"
"""Picture of the card for sharing."""
BOOSTS = {"index.md": 0.5, "reference/": 0.2, "reference/core.md": 1e-6}
"""Weights of pages in a search, by the start of their path."""
BUILT = "built_gallery"
"""The pages that mkdocs-gallery writes, with HTML."""


class NoHtml(Extension):
    """Markdown without HTML of its own: in `<w_i, M_j>` the first word is no tag."""

    page = ""
    """The page that is about to be read."""

    def extendMarkdown(self, md) -> None:
        """Take both readers of HTML out."""
        if NoHtml.page.startswith(BUILT):
            return
        md.inlinePatterns.deregister("html")
        md.preprocessors.deregister("html_block")


def walked(entry: object) -> object:
    """An entry of the menu.

    One that names a folder, as `claims/`, becomes its pages: the index, then in the index's order.

    A folder without an index has the order of docs/index.md.
    """
    if isinstance(entry, list):
        return [
            page
            for each in entry
            for page in (
                walked(each) if isinstance(each, str) and each.endswith("/") else [walked(each)]
            )
        ]
    if isinstance(entry, dict):
        return {title: walked(inside) for title, inside in entry.items()}
    if entry.endswith("/"):
        index, inside = next(
            (at, up)
            for at, up in ((DOCS / entry / "index.md", ""), (DOCS / "index.md", entry))
            if at.exists()
        )
        listed = re.findall(rf"\]\({inside}(\w[\w.-]*\.md)\)", index.read_text(encoding="utf-8"))
        pages = sorted(
            (path.name for path in (DOCS / entry).glob("*.md")),
            key=lambda name: (listed.index(name) if name in listed else 999, name),
        )
        return [entry + name for name in sorted(pages, key=lambda name: name != "index.md")]
    return entry


def on_startup(**_) -> None:
    """Compile the native step, which would say where, before the gallery runs."""
    with compile_once():
        import rarefeat.training.native_step  # noqa: F401


def on_config(config, **_):
    """The menu of what is there, Markdown without HTML, in docstrings too, and the foot."""
    config.nav = walked(config.nav)
    config.copyright = f"rarefeat {version('rarefeat')}, MIT licence; {CITE}"
    config.markdown_extensions.append(NoHtml())
    return config


def on_page_markdown(markdown: str, page, **_) -> str:
    """The page without links that lead out of docs/, and without its comment.

    Search finds an answer before the reference, which has the same words more often, and before the
    home page, whose name begins as "rare" does.
    """
    for start, boost in BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta["search"] = {"boost": boost}
    here, NoHtml.page = (DOCS / page.file.src_uri).parent, page.file.src_uri

    def inside(found: re.Match) -> str:
        return found[0] if (here / found[2]).resolve().is_relative_to(DOCS) else found[1]

    return DETAILS.sub(folded, LINK.sub(inside, COMMENT.sub("", markdown)))


def folded(found: re.Match) -> str:
    """What a forge folds in `<details>`, as the site's Markdown folds it."""
    return (
        f'??? note "{found[1]}"\n\n'
        + "".join(f"    {line}\n" if line else "\n" for line in found[2].strip().split("\n"))
        + "\n"
    )


def captioned(found: re.Match) -> str:
    """A picture with its caption.

    A drawing of our own stands in the page, so that one can point at its parts.
    """
    picture = DRAWING.sub(
        lambda svg: (DOCS / "figures" / f"{svg[2]}.svg").read_text(encoding="utf-8"), found[1]
    )
    bitmap = BITMAP.search(picture)
    if bitmap:
        # A PNG has its width in these bytes; type has one size in figures of all widths.
        width = int.from_bytes((DOCS / "figures" / bitmap[1]).read_bytes()[16:20], "big") / 30
        source = re.search(r'src="([^"]*)"', picture)[1]
        picture = picture.replace("<img ", f'<img style="width: {width:.0f}rem" ', 1)
        picture = f'<a href="{source}" title="Open at full size">{picture}</a>'
    return f"<figure>{picture}{f'<figcaption>{found[2]}</figcaption>' if found[2] else ''}</figure>"


def mathml(found: re.Match) -> str:
    """A formula as MathML, which browsers set without a script.

    Its LaTeX stays with it as `alttext`.
    """
    tag, opening, latex = found.groups()
    latex = html.unescape(latex).strip()
    shown = convert(latex, display="block" if opening == r"\[" else "inline")
    shown = shown.replace("<math ", f'<math alttext="{html.escape(latex)}" ', 1)
    return f'<{tag} class="arithmatex">{shown}</{tag}>'


def on_page_content(html: str, page, **_) -> str:
    """The page with its formulas set, its figures captioned, explorer and table in their place."""
    here = (DOCS / page.file.src_uri).parent

    def included(found: re.Match) -> str:
        text = TABLE.search((here / found[1]).read_text(encoding="utf-8"))[0]
        page.present_anchor_ids = (page.present_anchor_ids or set()) | set(ANCHOR.findall(text))
        return text

    html = EMBEDDED.sub(
        r'<iframe src="\2" title="Measured runs, by what was set" loading="lazy"></iframe><p>\1</p>',
        html,
    )
    return FRAGMENT.sub(included, FIGURE.sub(captioned, FORMULA.sub(mathml, html)))


def on_post_page(output: str, page, config, **_) -> str:
    """The page with a link in its foot, and the tags of a card, whose picture is drawn below."""
    relative = get_relative_url(CARD, page.url)
    tags = {
        "og:title": page.title,
        "og:description": config.site_description,
        "og:image": urljoin(config.site_url, CARD) if config.site_url else relative,
        "twitter:card": "summary_large_image",
    }
    lines = (
        f'<meta property="{name}" content="{html.escape(text)}">' for name, text in tags.items()
    )
    home = get_relative_url("", page.url)
    output = output.replace(CITE, f'<a href="{home}#{CITE.replace(" ", "-")}">{CITE}</a>', 1)
    return output.replace("</head>", "".join(lines) + "</head>", 1)


def on_post_build(config) -> None:
    """Draw the picture of the card, 1200 by 630 pixels, from a published table."""
    with project_style():
        figure = gate({"gate": PublishedTables(DOCS / "tables")["gate"]})
        figure.set_size_inches(6, 3.15)
        figure.savefig(Path(config.site_dir, CARD), dpi=200, bbox_inches=None)
