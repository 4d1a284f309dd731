"""What a search found, as one HTML file that needs no other."""

import base64
import os
from collections.abc import Mapping, Sequence
from html import escape

from ddsh.errors import BrokenImage
from ddsh.images import thumbnail
from ddsh.search.hits import Hit

_SIDE = 160
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem; }
section { border-top: 1px solid #8886; margin-top: 2rem; padding-top: 1rem; }
h1, h2 { font-size: 1.2rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
ol { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); list-style: none; }
ol { padding: 0; }
img { background: #8882; border-radius: .3rem; height: 9rem; object-fit: contain; width: 100%; }
p { margin: 0; overflow-wrap: anywhere; }
.path { font-size: .75rem; opacity: .8; }
.bits { display: flex; height: .4rem; }
.bits i { background: #8884; flex: 1; }
.bits i.flipped { background: #d33; }
"""


def make_page(found: Mapping[str, Sequence[Hit]]) -> str:
    """Return a page with what each query found.

    Parameters
    ----------
    found : mapping of str to sequence of Hit
        What was found, by the path or the name of the query.
    """
    sections = "".join(_section(query, hits) for query, hits in found.items())
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>ddsh search</title><style>{_STYLE}</style></head>"
        f"<body><h1>ddsh search</h1>{sections}</body></html>\n"
    )


def _section(query: str, hits: Sequence[Hit]) -> str:
    shown = _picture(query, "") if os.path.isfile(query) else ""  # noqa: PTH113 -- a query may be no path at all
    answer = f"<ol>{''.join(map(_item, hits))}</ol>" if hits else "<p>Nothing was found.</p>"
    return f'<section><h2>{_text(query)}</h2><div style="width:9rem">{shown}</div>{answer}</section>'


def _item(hit: Hit) -> str:
    labels = _text(", ".join(hit.labels))
    differs = "1 bit differs" if hit.distance == 1 else f"{hit.distance} bits differ"
    return (
        f"<li>{_picture(hit.path, labels)}{_strip(hit)}<p>{differs}</p>"
        f'<p><b>{labels}</b></p><p class="path">#{hit.id} {_text(hit.path)}</p></li>'
    )


def _picture(path: str, title: str) -> str:
    try:
        data = base64.b64encode(thumbnail(path, _SIDE)).decode()
    except BrokenImage:
        return '<p class="path">the file cannot be read</p>'
    return f'<img alt="{title}" src="data:image/jpeg;base64,{data}">'


def _strip(hit: Hit) -> str:
    """Return a strip with a mark for each bit that differs from the query's."""
    flipped = set(hit.flipped)
    marks = ("<i class=flipped></i>" if bit in flipped else "<i></i>" for bit in range(len(hit.bits)))
    return f'<div class="bits" aria-hidden="true">{"".join(marks)}</div>'


def _text(text: str) -> str:
    """Return text for HTML; names of files may hold bytes that are no text."""
    return escape(text.encode(errors="replace").decode())
