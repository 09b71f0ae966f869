"""Checkpoints as models write them: with the form, beside it, and without."""

import pytest

from goclaw.conversation.agent.context.summary import (
    CHECKPOINT,
    Checkpoint,
    Material,
    SummaryFailed,
    highest_mark,
    write_checkpoint,
)
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import Finished
from goclaw.llm.scripted import Answer, ScriptedModel, text_of

SUMMARY = "Anna wants the report on Friday; Ben objects to the second chapter."
JSON = (
    f'{{"summary": "{SUMMARY}", "topics": ["report"], "key_decisions": ["Friday"], "open_questions": ["chapter 2?"]}}'
)
WHOLE = Checkpoint(SUMMARY, ("report",), ("Friday",), ("chapter 2?",))


async def nobody(finished: Finished) -> None:
    """Nobody keeps books."""


async def written(answer: Answer | str, told: str = "User: hi") -> Checkpoint:
    model = ScriptedModel([Answer(answer) if isinstance(answer, str) else answer])
    return await write_checkpoint(Material("", [told]), model, nobody)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (JSON, WHOLE),
        (f"Here it is:\n```json\n{JSON}\n```\nI hope that helps!", WHOLE),
        (f'{{"summary": "{SUMMARY}"}}', Checkpoint(SUMMARY)),
        (f'{{"summary": "{SUMMARY}", "topics": "report", "key_decisions": ""}}', Checkpoint(SUMMARY, ("report",))),
        (
            f'{{"summary": "{SUMMARY}", "topics": null, "open_questions": [{{"who": "Ben"}}, "", 7]}}',
            Checkpoint(SUMMARY, (), (), ("{'who': 'Ben'}", "7")),
        ),
        (f"{SUMMARY} Nothing else.", Checkpoint(f"{SUMMARY} Nothing else.")),
        (f"{SUMMARY} {{not JSON}}", Checkpoint(f"{SUMMARY} {{not JSON}}")),
    ],
    ids=["as asked", "in prose", "alone", "lists as texts", "odd lists", "no JSON", "broken JSON"],
)
async def test_what_a_model_writes_is_read(answer: str, expected: Checkpoint) -> None:
    checkpoint = await written(answer)
    assert checkpoint == expected
    assert CHECKPOINT.from_json(CHECKPOINT.to_json(checkpoint)) == checkpoint


@pytest.mark.parametrize(
    "answer",
    [
        '{"summary": "", "topics": ["a"], "key_decisions": [], "open_questions": []}',
        '{"summary": "Fine.", "topics": [], "key_decisions": [], "open_questions": []}',
        '{"topics": ["report"], "key_decisions": ["Friday"], "open_questions": []}',
        '{"summary": ["a list"], "topics": [], "key_decisions": [], "open_questions": []}',
        "Fine.",
        "",
        Answer(JSON, error=ModelErrorKind.TIMEOUT),
    ],
    ids=["empty", "too short", "missing", "no text", "short prose", "nothing", "failed"],
)
async def test_one_without_a_summary_is_none(answer: Answer | str) -> None:
    with pytest.raises(SummaryFailed):
        await written(answer)


async def test_secrets_are_masked_and_the_form_is_asked_for() -> None:
    model = ScriptedModel([Answer(JSON.replace("chapter 2?", "sk-ant-0123456789abcdef"))])
    checkpoint = await write_checkpoint(Material("Before.", ["User: hi"]), model, nobody)
    assert checkpoint.open_questions == ("[secret]",)
    question = text_of(model.requests[0].messages[0])
    assert "Before." in question and "one JSON object" in question


def test_as_a_summary_it_has_its_lists_below() -> None:
    assert Checkpoint(SUMMARY, ("a", "b"), (), ("c?",)).text() == (
        f"{SUMMARY}\n\nTopics:\n- a\n- b\n\nOpen questions:\n- c?"
    )


@pytest.mark.parametrize(("share", "mark"), [(0, 0), (24.9, 0), (25, 25), (49.9, 25), (50, 50), (75, 75), (200, 75)])
def test_marks_are_reached_at_their_share(share: float, mark: int) -> None:
    assert highest_mark(share) == mark
