"""Text as HTML, and a whole page of it."""

import html

from apportion.errors import printable
from apportion.pages.style import PAGE, STYLE

# A page may show its own styles and pictures within it, and nothing else: no script, no request.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def escape(value: object) -> str:
    """Any value's text, as HTML that shows it: no markup, no control characters."""
    return html.escape(printable(value))


def page(title: object, *body: str, policy: str = _POLICY) -> str:
    """A whole page of these pieces. It fetches nothing, and ``policy`` tells the browser so."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{PAGE}{STYLE}</style></head>\n"
        f'<body><main class="apportion"><h1>{escape(title)}</h1>\n'
        f"{chr(10).join(body)}\n</main></body></html>\n"
    )
