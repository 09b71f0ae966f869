"""Text from somewhere else, between marks that it cannot imitate: it must not pass for a person's own words."""

import re
import secrets

_MARK = re.compile(r"<(/?)(material)\b", re.IGNORECASE)


def quoted(text: str, origin: str) -> str:
    """`text` as material from `origin` (one line, from us). The id is random: no text can know where it ends.

    What only looks like one of the marks is written differently, for readers who do not compare ids.
    """
    mark = secrets.token_hex(6)
    harmless = _MARK.sub("<\\1\u200b\\2", text)
    return f'<material id="{mark}" from="{_attribute(origin)}">\n{harmless}\n</material id="{mark}">'


def _attribute(origin: str) -> str:
    return "".join(character for character in origin if character.isprintable() and character not in '<>"')
