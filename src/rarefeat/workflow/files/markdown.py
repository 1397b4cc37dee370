"""Tables in Markdown."""

import re
from collections.abc import Sequence


def escape_tags(text: str) -> str:
    """Escape `<` before a letter, outside of code: HTML would take `<w_i, M_j>` for a tag."""
    return re.sub(r"(`[^`\n]*`)|<(?=[A-Za-z])", lambda match: match[1] or "&lt;", text)


def row(*cells: str) -> str:
    """Format a row of a table."""
    return "| " + " | ".join(escape_tags(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown_table(*lines: Sequence[str], right: Sequence[int] = ()) -> str:
    """Format a table from its head and its rows; `right` are the columns of numbers."""
    head, *body = [[str(cell) for cell in line] for line in lines]
    rule = "|".join(" ---: " if i in right else " --- " for i in range(len(head)))
    return "\n".join([row(*head), f"|{rule}|", *(row(*line) for line in body)])
