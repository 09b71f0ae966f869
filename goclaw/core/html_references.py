"""References to characters in HTML (`&amp;`), without the table of their names until a text has one: 0.5 MB."""

ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""For `str.translate`: what `html.escape` does."""


def unescape(text: str) -> str:
    """Return the text with the characters that its references mean, as `html.unescape` does."""
    if "&" not in text:
        return text
    import html

    return html.unescape(text)
