"""`/new`: the same as `/clear`, under the name that other bots use."""

from goclaw.commands.base import Command
from goclaw.commands.clear import clear

COMMAND = Command("new", "Start a new conversation", clear)
