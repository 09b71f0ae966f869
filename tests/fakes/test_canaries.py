"""The search for canaries finds them: a search that cannot fail proves nothing."""

import base64
from pathlib import Path

import pytest

from tests.canaries import CANARIES, PROVIDER_KEY, check, found_in


@pytest.mark.parametrize("canary", CANARIES)
def test_every_canary_is_found_in_every_kind_of_place(tmp_path: Path, canary: str) -> None:
    check(tmp_path, [{"text": "nothing"}])
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "goclaw.log").write_text(f"bytes before {canary} and after")
    with pytest.raises(AssertionError, match=r"goclaw\.log"):
        check(tmp_path)
    (tmp_path / "logs" / "goclaw.log").unlink()
    with pytest.raises(AssertionError, match="what was sent"):
        check(tmp_path, [], {"messages": [{"content": f"x{canary}x"}]})


def test_a_canary_in_another_form_is_found_and_one_where_it_belongs_is_not(tmp_path: Path) -> None:
    assert found_in(base64.b64encode(f"key={PROVIDER_KEY}\n".encode())) == [PROVIDER_KEY]
    (tmp_path / "config.yaml").write_text(PROVIDER_KEY)
    check(tmp_path, token="123456789:AA-the-token-of-a-bot")
