"""Prompts: from the configuration and from code, filled in and completed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, TextContent

from goclaw.common.core.events import Actor
from goclaw.errors import ToolError
from goclaw.tools.mcp.declared import Argument, Declared, DeclaredPrompt, Message
from tests.gateway.servers.mcp.house import ANN, BOB, house

REVIEW = {
    "description": "Review a file.",
    "arguments": {"file": {"description": "Which."}, "depth": {"required": False, "values": ["deep", "shallow"]}},
    "messages": [
        {"role": "system", "text": "You are strict."},
        {"text": "Review {{ file }} {{depth}}."},
        {"role": "assistant", "text": "I will."},
    ],
}


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_prompt_of_the_configuration_is_filled_in(tmp_path: Path, era: str) -> None:
    async with house(tmp_path, prompts={"review": REVIEW}) as home, home.client(mode=era) as client:
        listed = (await client.list_prompts()).prompts
        assert [(each.name, each.description) for each in listed] == [("review", "Review a file.")]
        assert [(each.name, each.required) for each in listed[0].arguments or ()] == [("file", True), ("depth", False)]
        got = await client.get_prompt("review", {"file": "{{ depth }}"})
        said = [(each.role, each.content.text) for each in got.messages if isinstance(each.content, TextContent)]
        assert said == [("user", "You are strict."), ("user", "Review {{ depth }} ."), ("assistant", "I will.")]
        reference = PromptReference(name="review")
        found = await client.complete(reference, {"name": "depth", "value": "sh"})
        assert found.completion.values == ["shallow"]
        assert (await client.complete(reference, {"name": "file", "value": ""})).completion.values == []


async def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    async with house(tmp_path, prompts={"review": REVIEW}) as home, home.client() as client:
        with pytest.raises(MCPError, match=r"prompt review: `fiel` is not one of its arguments; `file` is missing"):
            await client.get_prompt("review", {"fiel": "a"})
        with pytest.raises(MCPError, match="there is no prompt nothing"):
            await client.get_prompt("nothing")


async def test_code_makes_prompts_for_whom_it_wants(tmp_path: Path) -> None:
    async def greet(actor: Actor, given: Mapping[str, str]) -> Sequence[Message]:
        if given["name"] == "nobody":
            raise ToolError("nobody is there; name somebody")
        return [Message("user", f"Greet {given['name']} for {actor.key}.")]

    prompt = DeclaredPrompt("greet", "Greet.", greet, (Argument("name"),), may=lambda actor: actor.key == ANN)
    async with house(tmp_path, declared=Declared(prompts=(prompt,))) as home:
        async with home.client(ANN) as client:
            got = (await client.get_prompt("greet", {"name": "Zoe"})).messages[0].content
            assert isinstance(got, TextContent) and got.text == f"Greet Zoe for {ANN}."
            with pytest.raises(MCPError, match="nobody is there; name somebody"):
                await client.get_prompt("greet", {"name": "nobody"})
        async with home.client(BOB) as client:
            assert (await client.list_prompts()).prompts == []
            with pytest.raises(MCPError, match="there is no prompt greet"):
                await client.get_prompt("greet", {"name": "Zoe"})
        assert [(each.action, each.allowed) for each in home.audited[-1:]] == [("prompt.get", False)]
