"""The client with other people's servers: those of the protocol's own project, from npm, run by Node."""

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from goclaw.common.core.events import AgentProgress
from goclaw.common.specs import Risk
from goclaw.testing import Bench
from goclaw.tools.builtin.mcp_source import McpSource
from tests.tools.builtin.mcp_support import bench_with, source_of, tools_of

PACKAGES = Path(__file__).parents[2] / "mcp_servers" / "node_modules" / "@modelcontextprotocol"
pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]


def server(name: str, **more: object) -> dict[str, object]:
    program = PACKAGES / f"server-{name}" / "dist" / "index.js"
    if shutil.which("node") is None or not program.exists():
        pytest.skip("there is no Node, or tests/mcp_servers is not installed: see scripts/test")
    return {"command": "node", "args": [str(program)], **more}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    folder = tmp_path_factory.mktemp("servers")
    env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl"), "SOME_TOKEN": "a-token-of-the-server-1"}
    servers = {
        "everything": server("everything", env=env, sampling={}),
        "files": server("filesystem"),
        "memory": server("memory", env=env),
    }
    async with bench_with(folder, servers) as made:
        yield made


async def said(bench: Bench, tool: str, **arguments: object) -> str:
    return (await bench.call(tool, arguments)).content


async def test_all_of_them_connect_and_list_their_tools(bench: Bench) -> None:
    states = {name: each.state for name, each in source_of(bench).servers.servers.items()}
    assert all(state.startswith("connected: ") for state in states.values()), states
    count = {name: sum(tool.startswith(f"mcp__{name}__") for tool in tools_of(bench)) for name in states}
    assert count == {"everything": 17, "files": 14, "memory": 9}
    assert {what: fault for what, fault in bench.faults.items() if fault} == {}
    risks = {name: tools_of(bench)[f"mcp__files__{name}"].spec.risk for name in ("read_text_file", "write_file")}
    assert risks == {"read_text_file": Risk.LOW, "write_file": Risk.CRITICAL}


async def test_calls_give_texts_data_pictures_and_resources(bench: Bench) -> None:
    assert await said(bench, "mcp__everything__echo", message="hi") == "Echo: hi"
    assert await said(bench, "mcp__everything__get-sum", a=1, b=2) == "The sum of 1 and 2 is 3."
    weather = await said(bench, "mcp__everything__get-structured-content", location="New York")
    assert json.loads(weather) == {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
    assert "[picture, image/png, 4,033 bytes" in await said(bench, "mcp__everything__get-tiny-image")
    assert "demo://resource/dynamic/" in await said(bench, "mcp__everything__get-resource-links", count=2)
    assert "[resource demo://" in await said(bench, "mcp__everything__get-resource-reference", resourceId=1)


async def test_arguments_that_do_not_fit_never_reach_a_server(bench: Bench) -> None:
    content = await said(bench, "mcp__everything__get-structured-content", location="Rome")
    assert "field \\\"location\\\": expected 'New York' or 'Chicago' or 'Los Angeles', got 'Rome'" in content


async def test_a_program_knows_its_variables_and_no_other_and_no_secret_is_repeated(bench: Bench) -> None:
    variables = json.loads(await said(bench, "mcp__everything__get-env"))
    assert variables.keys() - {"LC_ALL", "TZ", "TMPDIR", "LANG"} == {"PATH", "HOME", "MEMORY_FILE_PATH", "SOME_TOKEN"}


async def test_the_root_is_the_workspace(bench: Bench) -> None:
    assert bench.folder.as_uri() in await said(bench, "mcp__everything__get-roots-list")
    (bench.folder / "note.txt").write_text("in the workspace")
    path = str(bench.folder / "note.txt")
    assert await said(bench, "mcp__files__read_text_file", path=path) == "in the workspace"
    outside = await bench.call("mcp__files__read_text_file", {"path": "/etc/hostname"})
    assert outside.is_error and "outside allowed directories" in outside.content


async def test_a_long_call_tells_how_far_it_is(bench: Bench) -> None:
    bench.events.clear()
    await said(bench, "mcp__everything__trigger-long-running-operation", duration=0.2, steps=2)
    told = [event.doing for event in bench.events if isinstance(event, AgentProgress)]
    assert told[0] == "1 of 2"


async def test_a_server_asks_by_a_form_of_every_kind(bench: Bench) -> None:
    bench.asked.clear()
    bench.answers = [
        "Ann",
        "yes",
        "It was.",
        "a@b.example",
        "https://b.example",
        "2000-01-01",
        "5",
        "seven",
        "7",
        "Ross",
    ]
    content = await said(bench, "mcp__everything__trigger-elicitation-request")
    assert "The MCP server everything asks" in bench.asked[0].text and bench.asked[1].options == ("yes", "no")
    assert "expected a number, got 'seven'" in bench.asked[8].text and "Monica" in bench.asked[9].options
    assert "Ann" in content and "Ross" in content and '"error"' not in content


async def test_a_server_asks_the_model_when_the_person_agrees(bench: Bench) -> None:
    bench.asked.clear()
    bench.answers, bench.samples = ["yes"], ["Forty-two."]
    content = await said(bench, "mcp__everything__trigger-sampling-request", prompt="How many?")
    assert "Forty-two." in content and "bench:model" in content
    (wanted,) = bench.sampled
    assert wanted.messages[-1].text == "Resource trigger-sampling-request context: How many?"
    assert "You are a helpful test server." in wanted.system and wanted.max_tokens == 100
    refused = await said(bench, "mcp__everything__trigger-sampling-request", prompt="How many?")
    assert "User rejected sampling request" in refused and len(bench.sampled) == 1


async def test_resources_are_listed_and_read(bench: Bench) -> None:
    listed = await said(bench, "list_mcp_resources", server="everything")
    assert "demo://resource/static/document/architecture.md" in listed and "template" in listed
    read = await bench.call("read_mcp_resource", {"server": "everything", "uri": "demo://resource/dynamic/text/1"})
    assert read.content.startswith("[resource demo://resource/dynamic/text/1]\nResource 1") and read.foreign
    assert "there is no MCP server nothing" in await said(bench, "read_mcp_resource", server="nothing", uri="x")


async def test_what_one_call_keeps_the_next_one_finds(bench: Bench) -> None:
    entity = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    await said(bench, "mcp__memory__create_entities", entities=[entity])
    assert "likes tea" in await said(bench, "mcp__memory__search_nodes", query="tea")


async def test_prompts_are_commands(bench: Bench) -> None:
    source: McpSource = source_of(bench)
    prompts = {prompt.name: prompt for prompt in source.prompts()}
    assert {"mcp__everything__simple_prompt", "mcp__everything__args_prompt"} <= prompts.keys()
    head, (text, origin, *_) = await prompts["mcp__everything__args_prompt"].say("Rome")
    assert head[1] == "" and origin == "the MCP server everything" and "Rome" in text
    _, (text, *_) = await prompts["mcp__everything__args_prompt"].say("state=Lazio 'New Rome'")
    assert "New Rome, Lazio" in text
    with pytest.raises(Exception, match="Usage: /mcp__everything__args_prompt city"):
        await prompts["mcp__everything__args_prompt"].say("")
