"""Assertions of what a person sees. Playwright's own also read text that is hidden, covered or cut off."""

import json
import re
from pathlib import Path

from playwright.sync_api import Locator, Playwright, expect

READ = (Path(__file__).parent / "seen.js").read_text("utf-8")
"""A function of JavaScript: the text that can be seen of an element."""
_ENGINE = """
{
  queryAll(root, body) {
    const {text, pattern, whole} = JSON.parse(body);
    const found = (READ)(root);
    const fits = pattern ? new RegExp(pattern).test(found) : whole ? found === text : found.includes(text);
    return found && fits ? [root] : [];
  },
  query(root, body) { return this.queryAll(root, body)[0] ?? null; },
}
""".replace("READ", READ)


def register(driver: Playwright) -> None:
    """Teach the browser's driver to look for elements by what is seen of them. Before any page is open."""
    # In a world of its own: the page's policy forbids code from text.
    driver.selectors.register("seen", script=_ENGINE, content_script=True)


def seen(where: Locator, text: "str | re.Pattern[str]" = "", *, whole: bool = False) -> None:
    """Wait until a person can see a text in an element.

    Args:
        where: the element; it may have to be scrolled to.
        text: a part of what is seen, or a pattern for it; white space counts as one space. Empty: any text.
        whole: the element shows this text and no other.

    Raises:
        AssertionError: it was not seen in time; says what was.
    """
    try:
        expect(_showing(where, text, whole=whole)).to_have_count(1)
    except AssertionError as error:
        raise AssertionError(f"{text!r} is not seen in {where}; seen: {seen_texts(where)}") from error


def unseen(where: Locator, text: "str | re.Pattern[str]" = "") -> None:
    """Wait until a person cannot see a text in any of these elements. Raises AssertionError."""
    try:
        expect(_showing(where, text)).to_have_count(0)
    except AssertionError as error:
        raise AssertionError(f"{text!r} is still seen in {where}: {seen_texts(where)}") from error


def announced(where: Locator, text: str) -> None:
    """Wait until a live region has a text. It is for screen readers: unseen on purpose."""
    expect(where).to_have_attribute("aria-live", re.compile("polite|assertive"))
    expect(where).to_have_text(text)


def seen_texts(where: Locator) -> list[str]:
    """Return what a person sees now of each of these elements; empty for one that shows no text."""
    return [str(each.evaluate(READ)) for each in where.all()]


def _showing(where: Locator, text: "str | re.Pattern[str]", *, whole: bool = False) -> Locator:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    wanted = {"text": words, "whole": whole, "pattern": "" if isinstance(text, str) else text.pattern}
    return where.locator(f"seen={json.dumps(wanted)}")
