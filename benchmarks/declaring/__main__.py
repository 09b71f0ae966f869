"""Compare how one small agent is declared: `python -m benchmarks.declaring`.

Two tools, one of which a person confirms, a cap and a time limit (FastMCP has tools and no agent: its cap is a rate).
Counted are the lines of each file after `ruff format`, without empty ones, and the names that it imports; then twelve
typical mistakes are planted, and what is said of each is kept. Each library lives in an environment of its own below
`.tools`, made by uv. The result is `benchmarks/results/<date>-declaring.json`.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PLACE = ROOT / ".tools" / "declaring"
PACKAGES = {"pydantic_ai": "pydantic-ai-slim", "openai_agents": "openai-agents", "fastmcp": "fastmcp"}
EXTRA = "from typing import Annotated, Literal\n\nfrom pydantic import Field\n\n"
"""Imports that some mistakes need."""
CONFIRMED = {
    "goclaw": "@tool(confirm=",
    "pydantic_ai": "@gardener.tool_plain(requires_approval=",
    "openai_agents": "@function_tool(needs_approval=",
    "fastmcp": "@gardener.tool(timeout=120)\nasync def water",
}
Edit = tuple[str, str]


@dataclass(frozen=True)
class Mistake:
    """A mistake, as a replacement in each file."""

    what: str
    edits: dict[str, Edit]


def everywhere(old: str, new: str) -> dict[str, Edit]:
    return dict.fromkeys(CONFIRMED, (old, new))


MISTAKES = [
    Mistake("a tool has no description", everywhere('    """Water a plant."""\n', "")),
    Mistake("a default has another type", everywhere("litres: float = 1", 'litres: float = "one"')),
    Mistake(
        "a default is none of the choices",
        everywhere("litres: float = 1", 'how: Literal["much", "little"] = "some"'),
    ),
    Mistake(
        "a bound does not fit its type", everywhere("plant: str, litres", "plant: Annotated[str, Field(ge=1)], litres")
    ),
    Mistake("an argument has no type", everywhere("plant: str, litres", "plant, litres")),
    Mistake("a type does not exist", everywhere("plant: str, litres", 'plant: "Plnat", litres')),
    Mistake(
        "two tools have one name",
        {
            "goclaw": ("@tool(", '@tool(name="place_of", '),
            "pydantic_ai": ("tool_plain(requires", 'tool_plain(name="place_of", requires'),
            "openai_agents": ("@function_tool(needs", '@function_tool(name_override="place_of", needs'),
            "fastmcp": ("@gardener.tool(timeout=120)\nasync", '@gardener.tool("place_of", timeout=120)\nasync'),
        },
    ),
    Mistake(
        "a keyword of a tool is misspelt",
        {
            "goclaw": ("confirm=", "confrim="),
            "pydantic_ai": ("requires_approval=", "require_approval="),
            "openai_agents": ("needs_approval=", "need_approval="),
            "fastmcp": ("timeout=120)\nasync", "timout=120)\nasync"),
        },
    ),
    Mistake(
        "a keyword of the agent is misspelt",
        {
            "goclaw": ("uses=", "usess="),
            "pydantic_ai": ("instructions=", "instruction="),
            "openai_agents": ("instructions=", "instruction="),
            "fastmcp": ("instructions=", "instruction="),
        },
    ),
    Mistake(
        "a cap is a text",
        {
            "goclaw": ("max_tool_calls=8", 'max_tool_calls="eight"'),
            "pydantic_ai": ("tool_calls_limit=8", 'tool_calls_limit="eight"'),
            "openai_agents": ("max_turns=8", 'max_turns="eight"'),
            "fastmcp": ("burst_capacity=8", 'burst_capacity="eight"'),
        },
    ),
    Mistake(
        "a time is misspelt",
        {
            "goclaw": ('"2m"', '"2 minits"'),
            "pydantic_ai": ("timeout(120)", 'timeout("2 minits")'),
            "openai_agents": ("timeout(120)", 'timeout("2 minits")'),
            "fastmcp": ("tool(timeout=120)", 'tool(timeout="2 minits")'),
        },
    ),
    Mistake(
        "something that is no tool is among the tools",
        {
            "goclaw": ("uses=[place_of, water]", 'uses=[place_of, {"water": 1}]'),
            "pydantic_ai": ("    name=", '    tools=[{"water": 1}],\n    name='),
            "openai_agents": ("tools=[place_of, water]", 'tools=[place_of, {"water": 1}]'),
            "fastmcp": ("@gardener.tool(timeout=120)\ndef", 'gardener.add_tool({"water": 1})\n\n\n@gardener.tool\ndef'),
        },
    ),
]


@dataclass(frozen=True)
class Said:
    """What is said of a mistake when the file is read."""

    mistake: str
    message: str
    """The last line; empty: nothing is said."""
    lines: int
    """How many lines there are to read."""
    at_the_line: bool
    """Whether the line of the mistake is named."""


def main() -> None:
    uv = shutil.which("uv") or sys.exit("uv is needed: it makes an environment for each library")
    found = {}
    for name in ("goclaw", *PACKAGES):
        # The files of others are texts here: their libraries are not installed.
        text = (HERE / f"gardener_{name}.py{'.txt' if name in PACKAGES else ''}").read_text()
        python = sys.executable if name == "goclaw" else _environment(uv, name)
        found[name] = {
            "version": _version(python, PACKAGES.get(name, "goclaw")),
            "lines": count_lines(text),
            "imported": sorted(find_imports(text)),
            "mistakes": [asdict(each) for each in _mistakes(name, text, python)],
        }
    made = datetime.now(UTC)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    report = {"date": f"{made:%Y-%m-%d}", "run": "python -m benchmarks.declaring", "commit": commit.stdout.strip()}
    path = ROOT / "benchmarks" / "results" / f"{made:%Y-%m-%d}-declaring.json"
    path.write_text(json.dumps({**report, "python": sys.version.split()[0], "libraries": found}, indent=1) + "\n")
    for line in table(found):
        print(line)


def table(found: dict[str, dict[str, object]]) -> Iterator[str]:
    """Yield the lines of the table for people."""
    yield "| | lines | imported | mistakes named | at their line | lines to read, most |"
    yield "|---|---|---|---|---|---|"
    for name, each in found.items():
        said: list[dict[str, object]] = each["mistakes"]  # type: ignore[assignment]  # as `main` has made it
        named = [one for one in said if one["message"]]
        read = max(int(str(one["lines"])) for one in said)
        placed = sum(bool(one["at_the_line"]) for one in named)
        imported = len(each["imported"])  # type: ignore[arg-type]  # as `main` has made it
        yield f"| {name} {each['version']} | {each['lines']} | {imported} | {len(named)} | {placed} | {read} |"


def _environment(uv: str, name: str) -> str:
    python = PLACE / name / "bin" / "python"
    if not python.exists():
        own = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(PLACE / name)], env=own, check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", str(python), PACKAGES[name]], env=own, check=True)
    return str(python)


def _version(python: str, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    if package == "goclaw":
        code = "import goclaw; print(goclaw.__version__)"
    return _run(python, "-c", code).stdout.strip()


def count_lines(text: str) -> int:
    """Return the lines after `ruff format`, without empty ones."""
    command = ["ruff", "format", "--isolated", "--stdin-filename", "agent.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return sum(bool(line.strip()) for line in done.stdout.splitlines())


def find_imports(text: str) -> Iterator[str]:
    """Yield the imported names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def plant(mistake: Mistake, name: str, text: str) -> tuple[str, int]:
    """Return the file with a mistake, without `EXTRA`, and the line at which it is with that."""
    old, new = mistake.edits[name]
    head, found, tail = text.rpartition(old)
    if not found:
        sys.exit(f"{name}: {mistake.what}: {old!r} is not in the file")
    return head + new + tail, head.count("\n") + new.count("\n") + EXTRA.count("\n") + 1


def _mistakes(name: str, text: str, python: str) -> Iterator[Said]:
    with TemporaryDirectory() as folder:
        for number, mistake in enumerate(MISTAKES):
            planted, place = plant(mistake, name, text)
            path = Path(folder) / f"gardener_{number}.py"
            path.write_text(EXTRA + planted)
            path.chmod(0o600)
            command = ["-m", "goclaw", "declare", "check", str(path)] if name == "goclaw" else [str(path)]
            done = _run(python, *command)
            printed = (done.stdout + done.stderr if done.returncode else "").splitlines()
            lines = [line for line in printed if line.strip()]
            placed = {int(line) for line in re.findall(rf"{path.name}(?:\", line |:)(\d+)", "\n".join(lines))}
            near = any(abs(line - place) <= 3 for line in placed)  # a decorator, or the call around it
            yield Said(mistake.what, lines[-1].replace(f"{folder}/", "") if lines else "", len(lines), near)


def _run(python: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if python == sys.executable:
        own["PYTHONPATH"] = str(ROOT)
    return subprocess.run([python, *arguments], capture_output=True, text=True, env=own, timeout=120, check=False)


if __name__ == "__main__":
    main()
