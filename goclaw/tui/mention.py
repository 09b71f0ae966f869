"""`@path` in a message: finding one that is being typed, and writing a path into it."""

import re

from goclaw.records import record

_BEGUN = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|([^\s"]*))$')
_SPACE = re.compile(r"\s")
_MAX_CHARACTERS = 256
"""Characters; typed paths are shorter, but a whole line may be pasted."""


@record
class Mention:
    """A mention that ends at the cursor."""

    written: str
    """The typed text from the `@` on."""
    begun: str
    """The path that is being typed."""
    is_quoted: bool

    def completed(self, path: str) -> str:
        """Return the text once `path` is chosen; a folder stays open for further typing."""
        quoted = self.is_quoted or bool(_SPACE.search(path))
        start = f'@"{path}' if quoted else f"@{path}"
        if path.endswith("/"):
            return start
        return f'{start}" ' if quoted else f"{start} "


def mention_before(text: str) -> Mention | None:
    """Return the mention at the end of `text`, a line up to its cursor."""
    found = _BEGUN.search(text)
    if found is None or len(found[0]) > _MAX_CHARACTERS:
        return None
    quoted, plain = found.groups()
    return Mention(found[0], plain if quoted is None else quoted, quoted is not None)


def can_be_written(path: str) -> bool:
    """Return whether a message can name `path`: with white space and a quotation mark its end is ambiguous."""
    return '"' not in path
