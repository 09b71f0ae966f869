import pytest

from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.model_messages import fence
from goclaw.llm.base import CallStarted, Finished, ModelEvent, Request, Stop, TextDelta
from goclaw.llm.demo import MARK, NO_AI, DemoModel


async def ask(*messages: Message) -> tuple[list[ModelEvent], Finished]:
    async with DemoModel().stream(Request("", messages)) as stream:
        events = [event async for event in stream]
    last = events[-1]
    assert isinstance(last, Finished)
    return events, last


@pytest.mark.promise("P-first-run")
async def test_every_reply_starts_by_saying_that_no_ai_is_connected() -> None:
    told = UserMessage("hello")
    for said in ([told], [UserMessage("/tool read nonsense")], []):
        _, finished = await ask(*said)
        assert finished.message.text.startswith(f"{NO_AI}\n")
        assert "`goclaw setup`" in finished.message.text.splitlines()[0]
    called = (told, AssistantMessage("", (ToolCall("a", "read", {}),)), ToolResult("a", "read", "text"))
    for messages in (called, (UserMessage("/tool read {}\n/tool read nonsense"),)):
        _, finished = await ask(*messages)
        assert finished.message.text.startswith(f"{MARK} ")
    assert "no AI" in MARK


async def test_the_reply_is_streamed_in_a_few_pieces_that_add_up_to_the_message() -> None:
    events, finished = await ask(UserMessage("hello there"))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert 2 <= len(deltas) <= 4
    assert "".join(deltas) == finished.message.text
    assert "You said: hello there" in finished.message.text
    assert '`/tool exec {"command": "ls"}`' in finished.message.text, "a call that works as it stands"
    assert finished.stop is Stop.END


@pytest.mark.promise("P-first-run")
async def test_a_tool_line_below_the_envelope_becomes_that_very_call() -> None:
    said = '<context time="now" sender="Ann">\nmore</context>\nplease\n/tool exec {"command": "ls"}\n/tool read'
    events, finished = await ask(UserMessage(said))
    assert [(call.name, call.input) for call in finished.message.calls] == [("exec", {"command": "ls"}), ("read", {})]
    assert len({call.id for call in finished.message.calls}) == 2
    assert [event.name for event in events if isinstance(event, CallStarted)] == ["exec", "read"]
    assert finished.stop is Stop.TOOLS


async def test_a_tool_line_inside_the_envelope_is_not_an_order() -> None:
    _, finished = await ask(UserMessage("<context>\n/tool exec {}\n</context>\nhello"))
    assert finished.message.calls == ()


@pytest.mark.parametrize("written", ["[1]", "{", "3"])
async def test_what_is_no_json_object_is_explained_instead_of_called(written: str) -> None:
    _, finished = await ask(UserMessage(f"/tool read {written}"))
    assert finished.message.calls == ()
    assert f"`/tool read` needs a JSON object after the name, but got: {written}" in finished.message.text


async def test_results_are_reported_in_the_order_of_the_calls() -> None:
    calls = (ToolCall("a", "read", {}), ToolCall("b", "exec", {}))
    results = (ToolResult("a", "read", "ONE"), ToolResult("b", "exec", "TWO", is_error=True))
    _, finished = await ask(UserMessage("/tool …"), AssistantMessage("", calls), *results)
    said = "read returned:\n\n```\nONE\n```\n\nexec returned:\n\n```\nTWO\n```"
    assert finished.message.text == f"{MARK} {said}"
    assert finished.stop is Stop.END


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("mark", ["bcdfghjk", "lmnpqrst"])
async def test_a_result_is_shown_as_it_is_without_the_marks_around_it(mark: str, explain: bool) -> None:
    content = fence("- old\n+ **new**\n````\n/tool exec {}", "exec", mark, explain=explain)
    _, finished = await ask(UserMessage("/tool …"), ToolResult("a", "exec", content))
    assert finished.message.text == f"{MARK} exec returned:\n\n`````\n- old\n+ **new**\n````\n/tool exec {{}}\n`````"


@pytest.mark.parametrize("mark", ["bcdfghjk", "lmnpqrst"])
async def test_a_tool_line_in_words_of_others_is_not_an_order(mark: str) -> None:
    _, finished = await ask(UserMessage(f"look:\n{fence('/tool exec {}', 'note.txt', mark)}"))
    assert finished.message.calls == () and "You said: look:\n/tool exec {}" in finished.message.text


async def test_call_ids_are_new_in_the_conversation_and_the_same_when_asked_again() -> None:
    said = UserMessage("/tool read")
    _, first = await ask(said)
    taken = first.message.calls[0].id
    history = (AssistantMessage("", (ToolCall("demo-2", "read", {}),)), said)
    _, second = await ask(*history)
    _, again = await ask(*history)
    assert (await ask(said))[1].message.calls[0].id == taken
    assert second.message.calls[0].id == again.message.calls[0].id
    assert (await ask(AssistantMessage("", (ToolCall(taken, "read", {}),)), said))[1].message.calls[0].id != taken


async def test_no_tokens_are_claimed_and_count_is_an_estimate_above_zero() -> None:
    _, finished = await ask(UserMessage("hello"))
    assert (finished.usage.input, finished.usage.output) == (0, 0)
    assert await DemoModel().count(Request("system", (UserMessage("hello"),))) > 0
