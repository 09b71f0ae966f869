"""The fakes that GoClaw ships, for its own tests and for those of people who build on it."""

from goclaw.channels.memory import MemoryChannel
from goclaw.clock import SteppedClock
from goclaw.embedders.words import WordsEmbedder
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.toolkit.bench import Bench, open_bench

__all__ = ["Answer", "Bench", "MemoryChannel", "ScriptedModel", "SteppedClock", "WordsEmbedder", "open_bench"]
