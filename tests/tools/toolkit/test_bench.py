"""The bench runs a tool as the dispatcher does, and shows what it did to the outside."""

from pathlib import Path

from goclaw.common.core.events import Question, Todo
from goclaw.common.specs import SideEffect
from goclaw.testing import open_bench
from goclaw.tools.toolkit.base import ToolContext, tool


@tool(side_effect=SideEffect.MUTATING)
async def note(ctx: ToolContext, text: str) -> str:
    """Write a note after asking where to."""
    path = await ctx.ask(Question("q", "question", ctx.actor.key, "Where?", "")) or "note.md"
    await ctx.workspace.write_bytes(path, text.encode())
    await ctx.keep_todos([Todo("read it", "pending")])
    return f"noted in {path}"


@tool(side_effect=SideEffect.SPAWNS)
async def launch(ctx: ToolContext) -> str:
    """Do what a person has to agree to."""
    return "launched"


async def test_a_call_goes_through_every_step(tmp_path: Path) -> None:
    async with open_bench(tmp_path, note, launch) as bench:
        bench.answers = ["own.md"]
        assert (await bench.call("note", {"text": "x"})).content == "noted in own.md"
        assert (await bench.call("note", {"text": "y"})).content == "noted in note.md"
        assert (bench.folder / "own.md").read_text() == "x"
        assert len(bench.asked) == 2 and [todo.content for todo in bench.todos] == ["read it"]
        assert (await bench.call("launch")).content == "launched"
        assert [wanted.call.name for wanted in bench.wanted] == ["launch"]
        wrong = await bench.call("note", {"txt": "x"})
        assert wrong.is_error and 'did you mean \\"text\\"?' in wrong.content
        assert (await bench.call("nothing")).content == '{"error": "unknown tool: nothing"}'
        assert [entry.object for entry in bench.audited] == ["note", "note", "launch", "note", "nothing"]
