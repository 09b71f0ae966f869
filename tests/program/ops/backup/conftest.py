"""A home to keep and to bring back."""

from pathlib import Path

import pytest

from tests.program.ops.backup.support import TOKEN, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Two conversations, a picture, settings, a secret, and a workspace in the state folder."""
    made = Home(tmp_path)
    made.configure(log_level="INFO")
    made.add_users({"telegram:5": {"name": "Ann"}})
    made.say("hello", "how are you?")
    made.say("look", session="tui:bob", picture=b"\x89PNG a picture")
    (made.state / "secrets").mkdir(mode=0o700)
    (made.state / "secrets" / "telegram_token").write_text(TOKEN)
    (made.workspace / "memory").mkdir(parents=True)
    (made.state / "notes" / "telegram:5").mkdir(parents=True)
    (made.state / "notes" / "telegram:5" / "tea.md").write_text("Ann hides the tea.\n")
    (made.workspace / "MEMORY.md").write_text("Ann likes tea.\n")
    return made
