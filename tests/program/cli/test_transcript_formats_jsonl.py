"""An export for machines has every row with every id."""

import json

from goclaw.common.core.events import CompactionRecord, TranscriptRow
from goclaw.common.core.messages import Image
from goclaw.common.core.redact import remember
from goclaw.durable.store.database import Database
from goclaw.durable.store.reading import TranscriptReader
from goclaw.durable.store.transcripts import StoredCompaction
from goclaw.program.cli.transcript_formats import JsonLinesWriter, mask_json
from goclaw.program.cli.transcripts import Entry
from tests.durable.store.saying import Story, talk
from tests.parts import sql


async def test_every_column_of_every_row_comes_back(database: Database) -> None:
    story = Story(database)
    rows = await story.turn("s", "t:1", 1.5, *talk("zwölf \n\x00 \u2028 ``` </x>", image="ab" * 32))
    await story.transcripts.add_compaction("s", StoredCompaction("told", "LLM", rows[1], 9, 1, at=2.0))

    reader = TranscriptReader(database)
    compacted = (await reader.outline("s")).compactions
    found: list[Entry] = [*await reader.page("s", 0)]
    found[1:1] = compacted
    lines = [JsonLinesWriter().entry(entry) for entry in found]
    assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)
    data = [json.loads(line) for line in lines]
    compaction = data.pop(1)
    assert (compaction["type"], compaction["summary"], compaction["first_kept"]) == ("compaction", "told", rows[1])
    query = "SELECT * FROM messages WHERE session = 's' ORDER BY id"
    stored = [dict(row) for row in await database.read(sql(query))]
    for kept, line in zip(stored, data, strict=True):
        images = [[image["blob"], image["mime"]] for image in line["images"]]
        assert line == {
            **{name: kept[name] for name in ("session", "turn", "step", "role", "text", "context", "sender")},
            "type": "message",
            "row": kept["id"],
            "at": kept["created_at"],
            "name": kept["name"] or "",
            "call_id": kept["call_id"] or "",
            "input": json.loads(kept["input"]) if kept["input"] else None,
            "is_error": bool(kept["is_error"]),
            "images": line["images"],
            "hint": kept["hint"] or "",
            "call_hint": kept["call_hint"] or "",
            "artifacts": json.loads(kept["artifacts"] or "[]"),
        }
        assert images == json.loads(kept["images"] or "[]")


def test_secrets_are_masked_wherever_they_stand() -> None:
    remember("a-very-secret-word")
    word = "a-very-secret-word"
    line = JsonLinesWriter().entry(
        TranscriptRow(
            1, "s", "t", "x", "tool_use", word, 0.0, images=(Image("ab", "c"),), input={word: [word, 1, None]}
        )
    )
    assert word not in line
    assert json.loads(line)["input"] == {"[secret]": ["[secret]", 1, None]}
    assert mask_json({"a": [True, 2.5, word]}) == {"a": [True, 2.5, "[secret]"]}
    assert word not in JsonLinesWriter().entry(CompactionRecord(1, word, "LLM", 1, 1, 0.0))
