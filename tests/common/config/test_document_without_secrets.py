"""A configuration can be kept without its secrets; nothing else of it changes."""

from pathlib import Path

import pytest

from goclaw.common.config.document import without_secrets
from goclaw.common.config.load import load_config

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"
KEY = "correct-horse-battery-staple"
TEXT = f"""\
# Ünïcode before it. The old key was sk-aaaaaaaaaaaaaaaaaaaaaaaaaa
telegram: {{token: "{TOKEN}", proxy: "http://ann:pässword@proxy:3128"}}  # kept
providers:
  anthropic:
    api_key: |-
      {KEY}
    base_url: https://models.example
  openai-chat:
    api_key: short
models:
  agent: [demo]
tools:
  exec:
    env: {{UPSTREAM: "{KEY}"}}
"""


def test_every_secret_is_gone_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT)
    loaded = load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")})
    text, without = without_secrets(TEXT)
    assert without == [
        "telegram.token",
        "telegram.proxy",
        "providers.anthropic.api_key",
        "providers.openai-chat.api_key",
        "tools.exec.env.UPSTREAM",
    ]
    for secret in (TOKEN, KEY, "short", "pässword", "sk-aaaa"):
        assert secret not in text
    assert "# kept" in text and "base_url: https://models.example" in text
    file.write_text(text)
    again = load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")}).config
    assert again.telegram.token is None
    assert again.providers["anthropic"].base_url == loaded.config.providers["anthropic"].base_url
    assert again.models == loaded.config.models


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "log_level: INFO\n", "telegram:\n  token:\n", "telegram: {token: ~}"]
)
def test_a_configuration_without_secrets_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == (text, [])
