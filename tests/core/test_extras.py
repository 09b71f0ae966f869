"""A library is imported as if an extra of it were not installed."""

import sys

import pytest

from goclaw.core.extras import standing_in, without


def test_a_hidden_module_cannot_be_imported_inside_the_block_and_can_be_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    with without("colorsys"):
        assert sys.modules["colorsys"] is colorsys, "what is imported already stays"


def test_a_stand_in_is_found_inside_the_block_and_the_module_itself_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with standing_in("colorsys", hue="none"):
        from colorsys import hue  # type: ignore[attr-defined]  # the stand-in's
    assert hue == "none"
    import colorsys

    assert colorsys.rgb_to_hsv(1, 1, 1) == (0, 0, 1)
    with standing_in("colorsys", hue="none"):
        assert sys.modules["colorsys"] is colorsys, "what is imported already stays"
