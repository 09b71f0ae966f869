"""Make docs/images/telegram.svg: the real daemon in a chat of our fake Telegram, whose model follows a script.

.venv-dev/bin/python docs/images/telegram.py [FILE]
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Sent

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("telegram.svg")
ANN = 123456
SECONDS = 40.0
ASKED = "What takes the most room here? If it is old logs, pack them."
FOUND = "`logs` does: **1.5 MB** of 1.6. The last of them was written in March, so I would pack them."
PACK = "tar -czf logs.tar.gz logs && rm -r logs"
DONE = "Done: `logs.tar.gz` has 2 kB. `tar -xzf logs.tar.gz` brings the logs back."
THANKS = "Thanks! And remove the archive, too."
ANSWERS: list[dict[str, Any]] = [
    {"calls": [{"id": "c1", "name": "list", "input": {"path": "."}}]},
    {"text": FOUND, "calls": [{"id": "c2", "name": "exec", "input": {"command": PACK}}]},
    {"text": DONE},
    {"calls": [{"id": "c3", "name": "exec", "input": {"command": "rm logs.tar.gz"}}]},
]
WIDTH, SIZE, LINE, PAD, GAP = 520, 15, 21, 12, 8
BUBBLE = 440
SANS, MONO = "system-ui, Helvetica, Arial, sans-serif", "ui-monospace, Menlo, Consolas, monospace"
ADVANCE, MONO_ADVANCE = 8.4, 8.6
"""Estimated width of a letter: fonts differ, and a bubble must be wide enough for all."""


async def main() -> None:
    """Play the scene and draw the chat as it is then: one approval answered, one open."""
    with tempfile.TemporaryDirectory() as home:
        async with FakeTelegram() as telegram:
            telegram.world.meet(ANN)
            process = await _start(Path(home), telegram)
            try:
                async with asyncio.timeout(SECONDS):
                    await _play(telegram)
            finally:
                process.terminate()
                await process.wait()
            FILE.write_text(draw(telegram))


async def _start(home: Path, telegram: FakeTelegram) -> asyncio.subprocess.Process:
    state = home / ".goclaw"
    (state / "workspace" / "logs").mkdir(parents=True)
    state.chmod(0o700)
    (state / "workspace" / "logs" / "march.log").write_text("nothing happened\n" * 90_000)
    (state / "tidy.json").write_text(json.dumps(ANSWERS))
    config = {
        "models": {"agent": ["scripted:tidy.json"], "summary": []},
        "telegram": {"token": telegram.token, "base_url": telegram.base_url},
        "policy": {"always_ask": ["exec"]},
    }
    (state / "config.yaml").write_text(json.dumps(config))
    (state / "users.json").write_text(json.dumps({"users": {f"telegram:{ANN}": {"name": "Ann", "roles": ["admin"]}}}))
    ours = {"HOME": str(home), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "OLLAMA_HOST": "http://127.0.0.1:9"}
    environment = {**ours, "PATH": os.environ.get("PATH", os.defpath)}
    log = (home / "daemon.log").open("wb")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "goclaw", "gateway", cwd=state, env=environment, stdout=log, stderr=log
    )


async def _play(telegram: FakeTelegram) -> None:
    await telegram.world.say(ASKED, user=ANN)
    asked = await telegram.wait_for(lambda: next(_open(telegram), None))
    await telegram.world.press(ANN, asked.message_id, asked.keyboard[0][0]["callback_data"], user=ANN)
    await telegram.wait_for(lambda: [each for each in telegram.sent(ANN) if each.text.startswith("Done")] or None)
    await telegram.world.say(THANKS, user=ANN)
    await telegram.wait_for(lambda: next((each for each in _open(telegram) if each != asked), None))


def _open(telegram: FakeTelegram) -> Iterator[Sent]:
    """Yield the questions with buttons."""
    return (each for each in telegram.sent(ANN) if each.keyboard)


def draw(telegram: FakeTelegram) -> str:
    """Return the chat as an SVG: bubbles of the bot on the left, of the person on the right."""
    parts, y = list[str](), GAP
    for (chat, number), message in sorted(telegram.world.messages.items()):
        if chat != ANN or not (seen := telegram.world.as_seen(chat, number, message)).text:
            continue
        lines = list(_wrap(seen.text.rstrip(), seen.entities))
        height = len(lines) * LINE + PAD
        width = min(BUBBLE, round(max(map(_width, lines)) + 2 * PAD))
        x = GAP if message["from"]["is_bot"] else WIDTH - GAP - width
        fill = "#ffffff" if message["from"]["is_bot"] else "#e1fec6"
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="11" fill="{fill}"/>')
        parts += [_text(line, x + PAD, y + LINE * (row + 1) - 2) for row, line in enumerate(lines)]
        y += height + 4
        for row in seen.keyboard:
            parts += _buttons([str(button["text"]) for button in row], y)
            y += 38
        y += GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
        f'font-family="{SANS}" font-size="{SIZE}" fill="#111">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{y}" rx="14" fill="#c8d9ea"/>', *parts, "</svg>\n"])


Letter = tuple[str, str]
"""A character, and how it is written: `code`, `bold` or nothing."""


def _wrap(text: str, entities: Sequence[dict[str, Any]]) -> Iterator[list[Letter]]:
    """Yield lines of letters that fit into a bubble."""
    styles = [""] * len(text)
    for entity in entities:
        kind = {"bold": "bold", "code": "code", "pre": "code"}.get(entity["type"], "")
        # Entities count in UTF-16.
        begin = len(text.encode("utf-16-le")[: 2 * entity["offset"]].decode("utf-16-le"))
        end = len(text.encode("utf-16-le")[: 2 * (entity["offset"] + entity["length"])].decode("utf-16-le"))
        styles[begin:end] = [kind or style for style in styles[begin:end]]
    line = list[Letter]()
    for letter in zip(text, styles, strict=True):
        if letter[0] == "\n":
            yield line
            line = []
            continue
        line.append(letter)
        if _width(line) > BUBBLE - 2 * PAD:
            cut = next((place for place in range(len(line) - 1, 0, -1) if line[place][0] == " "), len(line) - 1)
            yield line[:cut]
            line = line[cut:][line[cut][0] == " " :]
    yield line


def _width(line: Sequence[Letter]) -> float:
    return sum(MONO_ADVANCE if style == "code" else ADVANCE for _, style in line)


def _text(line: Sequence[Letter], x: float, y: float) -> str:
    spans, begin = list[str](), 0
    looks = {"bold": ' font-weight="bold"', "code": f' font-family="{MONO}" font-size="14"', "": ""}
    for end in range(1, len(line) + 1):
        if end == len(line) or line[end][1] != line[begin][1]:
            said = escape("".join(letter for letter, _ in line[begin:end]))
            spans.append(f"<tspan{looks[line[begin][1]]}>{said}</tspan>")
            begin = end
    return f'<text x="{x}" y="{y}" xml:space="preserve">{"".join(spans)}</text>'


def _buttons(labels: Sequence[str], y: float) -> Iterator[str]:
    width = (BUBBLE - 4 * (len(labels) - 1)) / len(labels)
    for place, label in enumerate(labels):
        x = GAP + place * (width + 4)
        yield f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="34" rx="8" fill="#7c98b3"/>'
        middle = f'x="{x + width / 2:.0f}" y="{y + 22}" text-anchor="middle" fill="#fff"'
        yield f"<text {middle}>{escape(label)}</text>"


if __name__ == "__main__":
    asyncio.run(main())
