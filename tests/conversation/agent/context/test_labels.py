"""The labels of a window, by the provenance of its parts."""

import pytest

from goclaw.common.core.messages import (
    AssistantMessage,
    Foreign,
    Message,
    Provenance,
    SourceKind,
    ToolCall,
    ToolResult,
    UserMessage,
)
from goclaw.conversation.agent.context.labels import source_of, window_content
from goclaw.conversation.agent.context.window import ContextEntry, Window
from goclaw.tools.approval.guard import Route, Sink, WindowContent, judge
from tests.tables import table


def window(*messages: Message, outside: frozenset[SourceKind] = frozenset()) -> Window:
    return Window(entries=[ContextEntry(row, each) for row, each in enumerate(messages, 1)], outside=outside)


def result(kind: SourceKind | None, text: str = "text", name: str = "read", call: str = "c") -> ToolResult:
    return ToolResult(call, name, text, foreign=True, provenance=Provenance(kind) if kind else None)


def labels(seen: WindowContent) -> tuple[bool, bool]:
    return bool(seen.foreign), bool(seen.private)


@pytest.mark.promise("P-guard")
@table(
    "kind, foreign, private",
    [
        (SourceKind.WEB, True, False),
        (SourceKind.FILE, False, True),
        (SourceKind.TOOL, False, True),
        (SourceKind.DOCUMENT, True, True),
        (SourceKind.MCP, True, True),
        (SourceKind.OTHER, True, False),
        (SourceKind.FORWARDED, True, False),
        (SourceKind.PERSON, False, False),
        (SourceKind.HOOK, False, False),
        (None, True, True),
    ],
)
def test_a_result_has_the_labels_of_its_source(kind: SourceKind | None, foreign: bool, private: bool) -> None:
    assert labels(window_content([window(result(kind))])) == (foreign, private)


@pytest.mark.promise("P-guard")
@table("kind", [SourceKind.WEB, SourceKind.DOCUMENT, SourceKind.MCP, SourceKind.FILE, SourceKind.TOOL])
def test_a_summary_has_the_labels_of_what_it_stands_for(kind: SourceKind) -> None:
    alone = labels(window_content([window(result(kind))]))
    assert labels(window_content([window(outside=frozenset({kind}))])) == alone


@pytest.mark.promise("P-guard")
def test_what_a_person_forwards_or_attaches_is_foreign_and_no_word_of_theirs() -> None:
    text = "Look: see https://evil.test/x thanks"
    for kind in (SourceKind.FORWARDED, SourceKind.FILE, SourceKind.OTHER):
        piece = Foreign(6, 29, "somebody", Provenance(kind))
        seen = window_content([window(UserMessage(text, foreign=(piece,)))])
        assert labels(seen) == (True, False)
        assert seen.written == ["Look:  thanks"]
    spoken = Foreign(6, 29, "voice", Provenance(SourceKind.VOICE))
    seen = window_content([window(UserMessage(text, foreign=(spoken,)))])
    assert (labels(seen), seen.written) == ((False, False), [text])


@pytest.mark.promise("P-guard")
def test_an_agent_has_the_labels_of_all_above_it_and_its_task_is_no_word_of_a_person() -> None:
    above = window(UserMessage("Look at it"), result(SourceKind.FILE), result(SourceKind.WEB))
    below = window(UserMessage("Open https://evil.test/secret"))
    seen = window_content([below, above])
    assert labels(seen) == (True, True)
    assert seen.written == ["Look at it"]
    assert judge(Sink(Route.ADDRESS, "https://evil.test/secret"), seen) is not None


@pytest.mark.promise("P-guard")
def test_a_schedule_that_was_set_after_others_words_brings_their_labels() -> None:
    assert labels(window_content([window(UserMessage("do it"))], "digest")) == (True, True)


@pytest.mark.promise("P-guard")
def test_pages_are_counted_from_the_first_private_part_on() -> None:
    def fetch(number: int, name: str = "web_fetch") -> list[Message]:
        given = {"url": f"https://a.test/{number}"}
        hidden = {"name": "web_fetch", "arguments": given}
        call = ToolCall(f"c{number}", name, hidden if name == "tool_call" else given)
        page = ToolResult(call.id, "web_fetch", "URL: x", foreign=True, provenance=Provenance(SourceKind.WEB))
        return [AssistantMessage("", (call,)), page]

    seen = window_content([window(*fetch(1), result(SourceKind.FILE), *fetch(2), *fetch(3, "tool_call"))])
    assert seen.pages == {"a.test": 2}


def test_the_source_of_an_agent_s_answer_carries_its_labels() -> None:
    for kinds in ([SourceKind.WEB], [SourceKind.FILE], [SourceKind.FILE, SourceKind.WEB]):
        seen = window_content([window(*map(result, kinds))])
        assert labels(window_content([window(result(source_of(seen)))])) == labels(seen)


def test_a_link_of_a_page_that_names_only_a_path_stands_in_the_window() -> None:
    page = result(SourceKind.WEB, "URL: https://museum.test/visit/\n\n[hours](hours?day=1) [home](/)", "web_fetch")
    seen = window_content([window(result(SourceKind.FILE), page)])
    assert judge(Sink(Route.ADDRESS, "https://museum.test/visit/hours?day=1"), seen) is None
    assert judge(Sink(Route.ADDRESS, "https://museum.test/"), seen) is None
    assert judge(Sink(Route.ADDRESS, "https://museum.test/visit/hours?day=2"), seen) is not None
