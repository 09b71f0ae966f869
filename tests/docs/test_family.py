"""docs/family.md says of each preset what it really is."""

import yaml

from goclaw.common.auth.presets import PRESETS
from tests.docs.pages import Page, pages

PAGE: Page = next(page for page in pages() if page.name == "docs/family.md")


def row(name: str) -> dict[str, str]:
    """A row of the table, by preset."""
    rows = [line.strip("|").split("|") for line in PAGE.text.splitlines() if line.startswith("|")]
    cells = next(cells for cells in rows if cells[0].strip() == name)
    return {preset.strip(): cell.strip() for preset, cell in zip(rows[0][1:], cells[1:], strict=True)}


def test_the_first_ten_lines_let_four_people_in() -> None:
    first = "\n".join(PAGE.text.splitlines()[:10])
    assert [f"--preset {name} --yes" in first for name in PRESETS] == [True] * 4
    assert "goclaw users list" in "\n".join(PAGE.text.splitlines()[:12])


def test_the_table_has_the_budgets_and_quiet_hours_of_the_presets() -> None:
    assert list(row("a day")) == list(PRESETS)
    for name, preset in PRESETS.items():
        cost, tokens = (preset.settings.get(key) for key in ("daily_cost", "daily_tokens"))
        said = "" if cost is None else f"${cost:g}" if cost == int(cost) else f"${cost:.2f}"
        words = [said, f"{tokens:,} tokens" if tokens else ""]
        assert row("a day")[name] == (" and ".join(word for word in words if word) or "no limit of its own")
        assert row("quiet hours")[name] == (preset.quiet_hours or "as configured")


def test_the_role_on_the_page_is_the_presets() -> None:
    (block,) = [yaml.safe_load(block.text) for block in PAGE.blocks() if block.language == "yaml"]
    shown, settings = block["roles"]["child"], PRESETS["child"].settings
    assert set(shown.pop("tools")) == set(settings["tools"])
    assert shown == {
        key: list(value) if isinstance(value, tuple) else value for key, value in settings.items() if key != "tools"
    }
