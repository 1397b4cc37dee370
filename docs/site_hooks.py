"""For MkDocs: a link that leaves docs/ is a link on a forge, and its text alone on the site."""

import re
from pathlib import Path

DOCS = Path(__file__).parent
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page, **_) -> str:
    """The page without links that lead out of docs/."""
    here = (DOCS / page.file.src_uri).parent

    def inside(found: re.Match) -> str:
        return found[0] if (here / found[2]).resolve().is_relative_to(DOCS) else found[1]

    return LINK.sub(inside, markdown)
