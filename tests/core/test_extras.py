"""A library is imported as if an extra of it were not installed."""

import sys

import pytest

from goclaw.core.extras import without


def test_a_hidden_module_cannot_be_imported_inside_the_block_and_can_be_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    with without("colorsys"):
        assert sys.modules["colorsys"] is colorsys, "what is imported already stays"
