"""A call in words: a heading that somebody would say, and below it every argument that is not whole in the heading."""

from collections.abc import Sequence
from typing import Any

import pytest

from goclaw.common.core import catalog
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.plugins import load
from goclaw.conversation.questions.question_messages import always_label, asking_text, heading
from goclaw.tools.approval.requests import ApprovalRequest, Grounds
from goclaw.tools.approval.sentences import MAX_IN_HEADING, in_words, phrase_of, rest_of
from goclaw.tools.templates import check
from goclaw.tools.toolkit.base import Tool
from tests.tables import table

LONG = "x" * (MAX_IN_HEADING + 1)
CALLS: list[tuple[str, dict[str, Any], str, str]] = [
    ("exec", {"command": "npm test"}, "run `npm test`", ""),
    ("exec", {"command": "npm test", "working_dir": "site"}, "run `npm test` in `site`", ""),
    ("exec", {"command": "ls", "env": {"A": "b"}}, "run `ls`", 'Env: `{"A":"b"}`'),
    ("exec", {"command": "a\nb"}, "run this command", "```\na\nb\n```"),
    ("exec", {"command": "echo `id`"}, "run this command", "```\necho `id`\n```"),
    ("exec", {"command": "a```b"}, "run this command", "````\na```b\n````"),
    ("exec", {"command": LONG}, "run this command", f"```\n{LONG}\n```"),
    ("exec", {"command": " ls"}, "run this command", "```\n ls\n```"),
    ("exec", {"command": "echo \u202eo"}, "run `echo \\u202eo`", ""),
    ("exec", {"command": "site", "working_dir": "site"}, "run `site` in `site`", ""),
    ("web_fetch", {"url": "https://example.org/lentils"}, "open `example.org/lentils`", ""),
    ("web_fetch", {"url": "http://example.org"}, "open `http://example.org`", ""),
    ("web_fetch", {"url": f"https://example.org/{LONG}"}, "open this address", f"```\nhttps://example.org/{LONG}\n```"),
    ("message", {"action": "send", "chat_id": "5", "text": "Hi"}, "send this to `5`", "```\nHi\n```"),
    ("message", {"action": "send", "chat_id": "5", "text": "5"}, "send this to `5`", "```\n5\n```"),
    ("message", {"action": "delete", "chat_id": "5", "message_id": "7"}, "delete a message in `5`", "```\n7\n```"),
    ("write", {"path": "a.md", "content": "# A"}, "write `a.md`", "```\n# A\n```"),
    (
        "schedule",
        {"action": "add", "every": "1d", "task": "Tidy"},
        "add a task for later",
        "Every: `1d`\n\nTask: `Tidy`",
    ),
]


def found(name: str) -> Tool:
    return load(catalog.TOOLS[name], Tool)


@table("name, given, phrase, below", CALLS)
def test_a_call_is_a_sentence_and_what_it_leaves_out_stands_below(
    name: str, given: dict[str, Any], phrase: str, below: str
) -> None:
    tool = found(name)
    said = phrase_of(tool.spec, tool.arguments.model_validate(given))
    assert (said, in_words(rest_of(tool.spec, said, given))) == (phrase, below)


@pytest.mark.parametrize("name", list(catalog.TOOLS))
def test_every_sentence_is_a_valid_template(name: str) -> None:
    tool = found(name)
    check(tool.spec.asks, set(tool.arguments.model_fields), name, 200)


def request(phrase: str, *, recipient: str = "", labels: Sequence[str] = (), **rest: Any) -> ApprovalRequest:
    call = ToolCall("c", "message", rest)
    return ApprovalRequest(
        call, "", "", "", grounds=Grounds(recipient=recipient, labels=tuple(labels)), phrase=phrase, rest=rest
    )


def test_the_heading_names_the_person_the_agent_and_who_gets_something() -> None:
    sending = request("send this to `5`", recipient="telegram:5")
    assert heading(sending, "Ann") == "Ann's agent wants to send this to `5`"
    assert heading(sending, "", "Mia") == "The agent wants to send this to Mia"
    assert heading(sending, "Ann", "Mia", "cook") == "Ann's agent cook wants to send this to Mia"


def test_always_is_said_in_words_on_the_button_or_below_where_it_has_no_room() -> None:
    short, long = request("open it", labels=["example.org"]), request("run it", labels=["make " + "x" * 60])
    assert always_label(short) == "Always for example.org" and "Always" not in asking_text(short)
    assert always_label(long) == "Always" and f"no more questions for make {'x' * 60}" in asking_text(long)
    assert always_label(request("run it")) == ""
