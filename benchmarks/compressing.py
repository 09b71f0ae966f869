"""How many tokens of what commands say are saved by compressing it, on recorded outputs (`recordings/`)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.figures import Figure, Options
from benchmarks.real_tokenizers import TokenizersMissing, count
from goclaw.llm.token_counts import estimate_text
from goclaw.tools.builtin.exec_run import shorten_line
from goclaw.tools.execution.compression.shortening import Short

RECORDINGS = Path(__file__).parent / "recordings"
WHOLE = "output:0123456789abcdef"
TARGETS: Mapping[str, float] = {"ls": 70, "git": 40, "grep": 10, "pytest": 45, "go": 55}
"""Per cent of the tokens. `cat` has none: what somebody wants to read is not cut, only not repeated."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a command said."""

    family: str
    command: str
    code: int
    output: str

    def compressed(self) -> Short | None:
        """What is left of it; None: it stays."""
        return shorten_line(self.command)(self.output, self.code)

    def shown(self) -> str:
        """What a model with compression gets."""
        short = self.compressed()
        return f"{short.note(WHOLE if short.left_out else '')}\n{short.text}" if short else self.output


def recordings() -> list[Recording]:
    """All of them, by name."""
    return [_recording(path) for path in sorted(RECORDINGS.glob("*.txt"))]


def _recording(path: Path) -> Recording:
    command, code, output = path.read_text("utf-8").split("\n", 2)
    return Recording(path.stem.partition("-")[0], command.removeprefix("$ "), int(code.rpartition(" ")[2]), output)


async def measure_compression(options: Options) -> list[Figure]:
    """Tokens saved, by family: the mean of the real tokenizers, or our estimate where they cannot be had."""
    recorded = recordings()
    texts = [text for each in recorded for text in (each.output, each.shown())]
    try:
        counted: Mapping[str, Sequence[int]] = await count(texts)
    except TokenizersMissing as error:
        print(f"estimated, the real tokenizers cannot be had here: {error}")
        counted = {"estimate": [estimate_text(text) for text in texts]}
    by_family: dict[str, list[tuple[Recording, float, float]]] = defaultdict(list)
    for at, each in enumerate(recorded):
        before, after = (mean(tokens[2 * at + offset] for tokens in counted.values()) for offset in (0, 1))
        by_family[each.family].append((each, before, after))
    return [_figure(family, found) for family, found in by_family.items()]


def _figure(family: str, found: Sequence[tuple[Recording, float, float]]) -> Figure:
    before, after = sum(was for _, was, _ in found), sum(now for _, _, now in found)
    detail = {each.command: {"before": round(was), "after": round(now)} for each, was, now in found}
    saved = 100 * (1 - after / before)
    return Figure(f"compression, {family}: tokens saved", "%", saved, TARGETS.get(family), "higher", detail)
