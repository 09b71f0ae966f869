"""Fourteen tasks of one step each, and a check of each on the disk or in the answer."""

import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STORY = (
    "Old Marta kept the lighthouse on the northern cape for forty years. One night the lamp broke in a storm. She lit "
    "a fire of her own furniture on the rocks, and the fishing fleet came home safely.\n"
)
CONFIG = "[server]\nhost=localhost\nport=8080\nname=demo\n"
ROWS = 37
FILES = {
    "docs/alpha.txt": "a\n",
    "docs/beta.txt": "b\n",
    "src/main.py": "import dates\nprint(dates.today())\n",
    "src/dates.py": "def today():\n    return 1\n\ndef parse_date(text):\n    return text.split('-')\n",
    "src/util.py": "def clamp(x):\n    return x\n",
    "notes.txt": "Team notes.\nThe meeting is on Thursday at 14:30 in room B12.\nBring the slides.\n",
    "key.txt": "k-9931-zz\n",
    "config.ini": CONFIG,
    "data.csv": "".join(f"{row},{row * row}\n" for row in range(ROWS)),
    "old.log": "x\n",
    "draft.txt": "the draft\n",
    "shopping.txt": "bread\neggs\n",
    "a.txt": "17\n",
    "b.txt": "25\n",
    "story.txt": STORY,
}
"""The workspace before each task, beside what the product keeps there."""
MADE = ("reports", "hello.txt", "final.txt", "sum.txt")
"""What tasks make at its top."""
NOTES = (".md", ".json", ".txt", ".jsonl", "")
"""Endings of files in which something may have been remembered."""


@dataclass(frozen=True)
class Task:
    """What a person asks, and whether it was done: from the workspace and the answer."""

    name: str
    said: str
    check: Callable[[Path, str], bool]


def lay(workspace: Path) -> None:
    """Put the files there as they are before a task, and take away what another one made."""
    for top in {*MADE, *(name.partition("/")[0] for name in FILES)}:
        shutil.rmtree(workspace / top, ignore_errors=True)
        (workspace / top).unlink(missing_ok=True)
    for name, content in FILES.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")


def text_of(path: Path) -> str:
    """Return a file's text; an empty one where there is none."""
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def kept_in(workspace: Path, word: str) -> bool:
    """Whether a word stands in any file of the workspace, or in the notes of a daemon whose state is next to it."""
    folders = (workspace, workspace.parent / "state" / "notes")
    files = (path for folder in folders for path in folder.rglob("*") if path.suffix in NOTES)
    return any(word in text_of(path).lower() for path in files)


def _is_renamed(workspace: Path) -> bool:
    return text_of(workspace / "final.txt") == "the draft\n" and not (workspace / "draft.txt").exists()


def _edited(workspace: Path) -> bool:
    return text_of(workspace / "config.ini").strip() == CONFIG.replace("8080", "9090").strip()


KEY = hashlib.sha256(FILES["key.txt"].encode()).hexdigest()[:8]
SHOPPING = ["bread", "eggs", "milk"]
TASKS = (
    Task(
        "write",
        "Create a file hello.txt with the text: Hello World",
        lambda at, said: "Hello World" in text_of(at / "hello.txt"),
    ),
    Task(
        "read",
        "When and where is the meeting? It is written in notes.txt",
        lambda at, said: "14:30" in said and "B12" in said,
    ),
    Task(
        "list",
        "Which files are in the folder docs?",
        lambda at, said: "alpha.txt" in said and "beta.txt" in said,
    ),
    Task(
        "exec",
        "Run the command `sha256sum key.txt | cut -c1-8` and tell me what it prints.",
        lambda at, said: KEY in said,
    ),
    Task("edit", "Change the port in config.ini to 9090.", lambda at, said: _edited(at)),
    Task("count", "How many lines are in data.csv?", lambda at, said: bool(re.search(rf"\b{ROWS}\b", said))),
    Task(
        "mkdir",
        "Make a folder reports and in it a file today.md with the heading: # Report",
        lambda at, said: "# Report" in text_of(at / "reports" / "today.md"),
    ),
    Task("delete", "Delete the file old.log", lambda at, said: not (at / "old.log").exists()),
    Task("rename", "Rename draft.txt to final.txt", lambda at, said: _is_renamed(at)),
    Task(
        "search",
        "Which file in the folder src defines the function parse_date?",
        lambda at, said: "dates.py" in said,
    ),
    Task(
        "append",
        "Add the line: milk to the end of shopping.txt. Keep what is there.",
        lambda at, said: text_of(at / "shopping.txt").split() == SHOPPING,
    ),
    Task(
        "remember",
        "Remember for later that my favourite colour is teal.",
        lambda at, said: kept_in(at, "teal"),
    ),
    Task(
        "sum",
        "a.txt and b.txt each hold a number. Add them and write the sum into sum.txt",
        lambda at, said: text_of(at / "sum.txt").strip() == "42",
    ),
    Task("summary", "Summarise story.txt in one sentence.", lambda at, said: "lighthouse" in said.lower()),
)
