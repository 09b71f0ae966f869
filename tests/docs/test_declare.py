"""docs/declare.md is true: its package works as it says, and every function of the source has a form that is proven."""

import asyncio
import re
import tomllib
from importlib import import_module
from pathlib import Path

import goclaw.tools.declare
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.plugin_loading import check_file
from goclaw.tools.toolkit.sources import open_sources
from tests import house
from tests.docs.pages import Page
from tests.plugin import install, packages, with_packages
from tests.tools.toolkit.one_file import own, put

__all__ = ["packages"]

PAGE = Page(house.ROOT / "docs" / "declare.md")
BLOCKS = {
    found[1]: block.text + "\n" for block in PAGE.blocks() if (found := re.fullmatch(r"<!-- (\w+: .+) -->", block.mark))
}
ROW = re.compile(r"\| (?P<there>\w+) \| (?P<here>.+) \| (?P<proof>.+) \|")
ROWS = [found for line in PAGE.text.splitlines() if (found := ROW.fullmatch(line)) and found["there"] != "there"]
SOURCE = [
    "Agent",
    "Use",
    "Export",
    "AgentToolset",
    "UseAgentToolset",
    "Passthrough",
    "DisableAgentDocs",
    "Toolset",
    "FromMCP",
    "FromRegistry",
    "Description",
    "Tool",
    "Args",
    "Return",
    "Artifact",
    "BoundedResult",
    "Tags",
    "BindTo",
    "Inject",
    "CallHintTemplate",
    "ResultHintTemplate",
    "ResultReminder",
    "Confirmation",
    "RunPolicy",
    "DefaultCaps",
    "MaxToolCalls",
    "MaxConsecutiveFailedToolCalls",
    "TimeBudget",
    "Timing",
    "Budget",
    "Plan",
    "Tools",
    "History",
    "KeepRecentTurns",
    "Compress",
    "Cache",
    "AfterSystem",
    "AfterTools",
    "InterruptsAllowed",
    "OnMissingFields",
    "MCPServer",
    "MCP",
    "ProtocolVersion",
    "MCPTool",
    "MCPToolset",
    "Resource",
    "WatchableResource",
    "StaticPrompt",
    "DynamicPrompt",
    "Notification",
    "Subscription",
    "SubscriptionMonitor",
    "Registry",
    "URL",
    "APIVersion",
    "Timeout",
    "Retry",
    "SyncInterval",
    "CacheTTL",
    "Federation",
    "Include",
    "Exclude",
    "PublishTo",
    "Version",
    "Attribute",
    "Field",
    "Required",
]
"""The quick reference of Goa-AI's design language, in its order."""
PROOF = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<test>test_\w+)`")


def test_every_function_of_the_source_has_its_row_in_its_order() -> None:
    assert [row["there"] for row in ROWS] == SOURCE


def test_every_row_names_a_test_that_there_is_or_says_why_not() -> None:
    unproven = []
    for row in ROWS:
        if re.match(r"not applicable: \S.{20}", row["proof"]):
            continue
        found = PROOF.fullmatch(row["proof"])
        path = house.ROOT / found["path"] if found else None
        if not (found and path and path.is_file() and re.search(rf"def {found['test']}\(", path.read_text("utf-8"))):
            unproven.append(row["there"])
    assert unproven == []


def test_every_form_is_a_function_that_can_be_imported_and_that_its_test_uses() -> None:
    lost = []
    for row in ROWS:
        found = PROOF.fullmatch(row["proof"])
        if found is None:
            continue
        text = (house.ROOT / found["path"]).read_text("utf-8")
        names = re.findall(r"`(\w+)\(", row["here"])
        lost += [
            name
            for name in names[:1]
            if name not in goclaw.tools.declare.__all__ or not re.search(rf"\b{name}\b", text)
        ]
        lost += [] if names else [row["there"]]
    assert lost == []


def test_every_example_of_the_source_is_a_file_without_a_fault(tmp_path: Path) -> None:
    page = Page(house.ROOT / "docs" / "declare-examples.md")
    examples = {block.mark: block.text for block in page.blocks() if block.mark.startswith("<!-- example: ")}
    assert len(examples) == 6 == page.text.count("```python")
    faults = []
    for number, (mark, text) in enumerate(examples.items()):
        path = put(own(tmp_path / "mine") / f"example_{number}.py", f"{text}\n")
        faults += [f"{mark}: {each.format(path.name)}" for each in check_file(path, Config(state_dir=tmp_path))]
    assert faults == []


async def test_the_package_of_the_page_works_as_it_says(packages: Path, tmp_path: Path) -> None:
    project = tomllib.loads(BLOCKS["file: pyproject.toml"])["project"]
    modules = {name: BLOCKS[f"file: {name}.py"] for name in ("garden", "test_garden")}
    install(packages, project["name"], modules, project["entry-points"]["goclaw.plugins"])
    loaded = with_packages(tmp_path)
    merged, parts = loaded.config, parts_of(loaded.packaged)
    async with open_sources(merged, SteppedClock(), parts) as sources:
        assert sources.faults == {}
        assert (
            "garden-agents" in sources.origin("gardener.tools.place_of_plant")
            and sources.origin("plan_garden") == "config agents"
        )
    assert merged.agents.kinds["gardener"].tools == ("set:gardener/tools",)
    assert merged.toolsets["gardener/gardener.tools"] == ("plan_garden",)
    for name, test in vars(import_module("test_garden")).items():
        if name.startswith("test_"):
            async with asyncio.timeout(30):
                await test(own(tmp_path / name))
