"""The fakes that GoClaw ships, for its own tests and for those of people who build on it."""

from goclaw.channels.memory import MemoryChannel
from goclaw.common.core.clock import SteppedClock
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.memory.embedders.words import WordsEmbedder
from goclaw.tools.toolkit.bench import Bench, open_bench

__all__ = ["Answer", "Bench", "MemoryChannel", "ScriptedModel", "SteppedClock", "WordsEmbedder", "open_bench"]
