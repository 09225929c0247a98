"""A self-contained HTML page: text, tables and figures in one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p.lead { color: #52606d; margin-top: 0; }
table { border-collapse: collapse; font-size: .85rem; } td, th { padding: .25rem .8rem .25rem 0; text-align: left;
vertical-align: top; border-bottom: 1px solid #e4e7eb; } th { color: #52606d; font-weight: 600; }
.row { display: flex; flex-wrap: wrap; gap: 1.5rem; } .row > div { flex: 1 1 26rem; }
figure { margin: 0; } svg { max-width: 100%; height: auto; }
.pass { color: #15803d; font-weight: 600; } .fail { color: #dc2626; font-weight: 600; } .open { color: #7b8794; }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: a title, a sentence, and ready HTML (a table, or a figure as ``svg``)."""

    title: str
    text: str
    content: str

    def render(self) -> str:
        """Return it as HTML."""
        sentence = f"<p>{escape(self.text)}</p>" if self.text else ""
        return f"<section><h2>{escape(self.title)}</h2>{sentence}{self.content}</section>"


def page(title: str, lead: str, rows: Iterable[Sequence[Sequence[Section]]]) -> str:
    """Return the page: rows of columns of sections. Columns stand side by side where there is room."""
    body = "\n".join(f'<div class="row">{"".join(_column(column) for column in row)}</div>' for row in rows)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f'<body><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>\n{body}\n</body></html>\n'
    )


def _column(sections: Sequence[Section]) -> str:
    return f"<div>{''.join(section.render() for section in sections)}</div>" if sections else ""


def figure(svg: str) -> str:
    """Return a figure from its SVG."""
    return f"<figure>{svg}</figure>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], classes: Sequence[str] = ()) -> str:
    """Return a table. ``classes`` are the rows' style classes for their first cell (``pass``, ``fail``, ``open``)."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = []
    for index, row in enumerate(rows):
        first, *others = row
        style = f' class="{escape(classes[index])}"' if index < len(classes) else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
        lines.append(f"<tr><td{style}>{escape(first)}</td>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
