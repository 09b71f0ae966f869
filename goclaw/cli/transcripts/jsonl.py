"""A transcript for machines: one row as one line of JSON, with every id. Only secrets are not as they were."""

from typing import Any

import orjson

from goclaw.cli.transcripts.source import Entry
from goclaw.events import CompactionRecord, Outline
from goclaw.redact import mask


class JsonLines:
    """Writes lines; the first key says what a line is."""

    def head(self, outline: Outline) -> str:
        """Return nothing: a transcript has no first line."""
        return ""

    def entry(self, entry: Entry) -> str:
        """Format one entry as a line."""
        kind = "compaction" if isinstance(entry, CompactionRecord) else "message"
        data = masked(orjson.loads(orjson.dumps(entry)))
        return orjson.dumps({"type": kind, **data}).decode() + "\n"


def masked(value: Any) -> Any:
    """Return JSON data without secrets, in keys and values."""
    match value:
        case str():
            return mask(value)
        case list():
            return [masked(item) for item in value]
        case dict():
            return {mask(key): masked(item) for key, item in value.items()}
        case _:
            return value
