"""A reader of a page: a home folder of their own, and a shell in which the blocks of the page are carried out."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import house
from tests.docs.pages import IN_TERMINAL, Block
from tests.terminal import open_terminal

BLOCK_SECONDS = 200.0
KEYS = {"Ctrl+C": "\x03", "Ctrl+Q": "\x11"}
SCRIPT = """
set -eu
cd "$(cat "$HOME/.reader/folder" 2>/dev/null || echo "$HOME")"
[ ! -e "$HOME/.reader/variables" ] || . "$HOME/.reader/variables"
set -x
{ %s
}
{ set +x; } 2>/dev/null
pwd > "$HOME/.reader/folder"
export -p > "$HOME/.reader/variables"
"""
"""One block; the next one of the page begins in the folder and with the variables that it left."""


@dataclass(frozen=True)
class Reader:
    """A person on a new machine, with `goclaw` on the path and nothing else of ours."""

    home: Path

    async def follow(self, block: Block) -> None:
        """Do what a block says. A `chat` block is sent message by message.

        Raises:
            AssertionError: something of it failed; the message has the output.
        """
        if block.language == "chat":
            for line in block.text.splitlines():
                await self._shell(block, f"goclaw send {_quoted(line)}")
        elif found := IN_TERMINAL.fullmatch(block.mark):
            await self._in_terminal(block, found["text"], found["keys"])
        else:
            text = block.text
            if block.language == "console":
                text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
            await self._shell(block, text)

    async def leave(self) -> None:
        """End what still runs."""
        process = await self._start("goclaw", "stop")
        await process.communicate()

    async def _shell(self, block: Block, commands: str) -> None:
        (self.home / ".reader").mkdir(parents=True, exist_ok=True)
        process = await self._start("sh", "-c", SCRIPT % commands)
        try:
            async with asyncio.timeout(BLOCK_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"{block.place}: does not end within {BLOCK_SECONDS:g} s") from None
        assert process.returncode == 0, f"{block.place}: exit code {process.returncode}\n{output.decode()}"

    async def _start(self, *command: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            env=self._environment(),
            cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def _in_terminal(self, block: Block, text: str, keys: str) -> None:
        command = ["sh", "-c", block.text]
        async with open_terminal(command, self._environment(), size=(120, 40), folder=self.home) as terminal:
            await terminal.until(text)
            for key in keys.split():
                await terminal.type(KEYS[key])
            await terminal.wait()

    def _environment(self) -> dict[str, str]:
        """Nothing of the machine that runs the tests: no key, no token, no Ollama, no folder of its user."""
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        home = {"HOME": str(self.home), "PYTHONPATH": str(house.ROOT), "LANG": "C.UTF-8", "LOGNAME": "ann"}
        return {"PATH": path, "OLLAMA_HOST": "http://127.0.0.1:9", "GOCLAW_LOOPBACK_ONLY": "1", **home}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
