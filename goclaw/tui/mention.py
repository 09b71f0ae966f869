"""`@path` in a message: where one is being typed, and how a path is written into it.

A mention begins at the start of a line or after white space. A path with white space stands in double quotes:
`@"my notes.md"`. The daemon's tools take both forms (`workspace.paths`).
"""

import re

from goclaw.records import record

_BEGUN = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|([^\s"]*))$')
_SPACE = re.compile(r"\s")
_MAX_CHARACTERS = 256
"""Characters; nobody types longer paths, but somebody may paste a line."""


@record
class Mention:
    """A mention that ends at the cursor."""

    written: str
    """What stands there, from the `@` on."""
    begun: str
    """The path that is being typed."""
    is_quoted: bool

    def completed(self, path: str) -> str:
        """What stands there once `path` is chosen; a folder waits for what is typed next."""
        quoted = self.is_quoted or bool(_SPACE.search(path))
        start = f'@"{path}' if quoted else f"@{path}"
        if path.endswith("/"):
            return start
        return f'{start}" ' if quoted else f"{start} "


def mention_before(text: str) -> Mention | None:
    """The mention at the end of `text`, a line up to its cursor."""
    found = _BEGUN.search(text)
    if found is None or len(found[0]) > _MAX_CHARACTERS:
        return None
    quoted, plain = found.groups()
    return Mention(found[0], plain if quoted is None else quoted, quoted is not None)


def can_be_written(path: str) -> bool:
    """Whether a message can name `path`: one with white space and a quotation mark cannot be told from its end."""
    return '"' not in path
