"""Styles for people who want no colours (NO_COLOR, https://no-color.org)."""

import os

CSS = """
Screen:nocolor > .screen--selection { text-style: reverse; }
Note.-notice:nocolor { text-style: dim; }
Note.-error:nocolor { text-style: bold; border-left: heavy $error; }
Said.-waiting:nocolor { text-style: dim; border-left: solid $accent; }
ToolCard:nocolor { text-style: dim; }
ToolCard.-failed:nocolor { text-style: bold; border-left: heavy $error; }
Prompt:nocolor:focus { border: heavy $accent; }
Prompt:nocolor .text-area--placeholder { text-style: dim; }
LogView:nocolor:focus { border-left: heavy $accent; }
OptionList:nocolor > .option-list--option-highlighted { text-style: bold underline; }
#jump:nocolor { text-style: reverse; }
Toast:nocolor { border: solid $accent; padding: 0 1; }
Toast.-error:nocolor { border: heavy $error; text-style: bold; }
"""
"""A list's line is underlined: Textual 8.2 forgets `reverse` where it asks for the style of a part of a widget."""


def is_wanted() -> bool:
    """Whether NO_COLOR is set, and not to nothing."""
    return bool(os.environ.get("NO_COLOR"))


def drop_empty_wish() -> None:
    """An empty NO_COLOR is no wish, but Textual would take it for one."""
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]
