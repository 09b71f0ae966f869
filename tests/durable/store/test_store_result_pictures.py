"""Pictures of results are kept with their rows, and needed for as long as a context shows them."""

from goclaw.common.core.messages import Image, ToolResult
from goclaw.durable.store.database import Database
from goclaw.durable.store.media import NeededMedia
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of

SEEN = ToolResult("1", "read", "a.png is a picture", images=(Image("ab" * 32, "image/png"),))


async def test_a_picture_that_a_tool_read_survives_the_store_and_the_sweep(database: Database) -> None:
    transcripts = Transcripts(database)
    await database.write(transcripts.ensure_session("s", 1.0), *rows_of(SEEN, Origin("s", "t", "tool:1", 2.0)))

    _, (stored,) = await transcripts.context("s")
    assert stored.message == SEEN
    assert await NeededMedia(database).keys() == {"ab" * 32}

    await transcripts.clear("s", at=3.0)
    assert await NeededMedia(database).keys() == frozenset()
