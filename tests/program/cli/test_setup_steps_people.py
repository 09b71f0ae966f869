"""The step of `goclaw setup` about others: who is taken, what is shown before, and what is not changed there."""

import json
from pathlib import Path

import pytest

from goclaw.common.auth.presets import PRESETS
from goclaw.errors import ConfigError
from goclaw.program.cli.rights import Wanted
from goclaw.program.cli.setup import SetupPaths, write_answers
from goclaw.program.cli.setup_dialogue import AdminAnswer, SetupAnswers
from goclaw.program.cli.setup_steps import choose_people, person_of
from tests.program.cli.setup_support import dialogue, loaded, scene
from tests.tables import table

OWNER = AdminAnswer("telegram:5", "Ann")


async def chosen(folder: Path, *answers: str, adds_roles: bool = True) -> tuple[list[Wanted], str]:
    """Who is taken after these answers, and what was said."""
    with dialogue(*answers, ends=True) as heard:
        async with scene(heard, folder) as each:
            return [*await choose_people(each, OWNER, adds_roles=adds_roles)], heard.text


@pytest.mark.promise("P-presets")
async def test_people_are_shown_as_they_will_be_before_they_are_taken(tmp_path: Path) -> None:
    people, said = await chosen(tmp_path, "telegram:6 child Cem", "tui:gus guest", "", "")
    assert people == [Wanted("telegram:6", PRESETS["child"], "Cem"), Wanted("tui:gus", PRESETS["guest"])]
    assert all(f"   {preset.name:7}{preset.about}\n" in said for preset in PRESETS.values())
    assert said.index("Daily budget $0.50") < said.index("Add these people?")
    assert not (tmp_path / "state").exists()


async def test_who_is_named_without_a_key_is_invited(tmp_path: Path) -> None:
    people, said = await chosen(tmp_path, "child Cem Ay", "owner Eve", "guest", "", "", adds_roles=False)
    assert people == [Wanted("", PRESETS["child"], "Cem Ay")]
    assert "   Cem Ay: child, no commands" in said and "you get an invitation to send" in said
    assert "a code makes nobody an admin" in said and "guest: say who it is" in said


async def test_a_no_takes_nobody(tmp_path: Path) -> None:
    people, _ = await chosen(tmp_path, "telegram:6 child Cem", "", "n")
    assert people == []


async def test_what_cannot_be_taken_says_why_and_asks_again(tmp_path: Path) -> None:
    answers = ("@cem child", "telegram:6", "telegram:6 gest", "telegram:5 adult", "telegram:6 guest", "", "")
    people, said = await chosen(tmp_path, *answers)
    assert [each.key for each in people] == ["telegram:6"]
    reasons = (
        "should be `<channel>:<id>`",
        "choose a preset: owner, adult, child, guest",
        "`gest`",
        "that is you, and you are the admin",
    )
    assert [words for words in reasons if words not in said] == []


@pytest.mark.promise("P-setup-harmless")
async def test_a_role_for_a_configuration_that_exists_is_left_to_another_command(tmp_path: Path) -> None:
    people, said = await chosen(tmp_path, "telegram:6 child", "", adds_roles=False)
    assert people == []
    assert "lacks roles.child; `goclaw users add telegram:6 --preset child` adds it" in said


@pytest.mark.promise("P-setup-harmless")
async def test_people_who_are_listed_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "users.json").write_text('{"users": {"telegram:6": {}}}')
    people, said = await chosen(tmp_path, "telegram:6 owner", "")
    assert people == [] and "is already listed; `goclaw users add telegram:6 --preset owner` shows" in said


@table("text", ["", "telegram:6", "telegram:6 father Cem", "cem child"])
def test_a_line_that_names_no_person_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        person_of(text)


def test_everybody_is_written_with_the_owner_or_nobody(tmp_path: Path) -> None:
    before = loaded(tmp_path)
    people = (Wanted("telegram:6", PRESETS["child"], "Cem"), Wanted("telegram:7", PRESETS["child"], "Dan"))
    place = SetupPaths.of(before, None)
    report = write_answers(SetupAnswers(owner=OWNER, people=people), place, before)
    users = json.loads(place.users.read_text())["users"]
    assert {key: entry["roles"] for key, entry in users.items()} == {
        "telegram:5": ["admin"],
        "telegram:6": ["child"],
        "telegram:7": ["child"],
    }
    assert place.config.read_text().count("  child:\n") == 1
    assert any(line.endswith(": telegram:7, child") for line in report.written)
