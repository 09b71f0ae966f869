"""The last step of `goclaw setup`: other people, each by a preset, shown as a table before anything is written.

It writes entries of users.json, and the roles that they need in a configuration file that is new. A file that
exists is not changed here: for a role that it lacks, the command to add it is shown.
"""

from collections.abc import Sequence

from goclaw.common.auth.presets import PRESETS, find_preset
from goclaw.common.auth.users import Users, key_problem
from goclaw.errors import ConfigError
from goclaw.program.cli.presets import Wanted, plan_people, table
from goclaw.program.cli.setup_dialogue import AdminAnswer, Scene

FORM = "KEY PRESET NAME, as in `telegram:234567 child Cem`"


def person_of(text: str) -> Wanted:
    """Return the person that a line names: key, preset and, where given, a name.

    Raises:
        ConfigError: it does not.
    """
    key, _, rest = text.strip().partition(" ")
    preset, _, name = rest.strip().partition(" ")
    if problem := key_problem(key):
        raise ConfigError(f"{key or 'nothing'}: {problem}")
    if not preset:
        raise ConfigError(f"{key}: choose a preset: {', '.join(PRESETS)}; {FORM}")
    return Wanted(key, find_preset(preset), name.strip())


async def choose_people(
    scene: Scene, owner: AdminAnswer | None, given: Sequence[Wanted] = (), *, adds_roles: bool
) -> Sequence[Wanted]:
    """Return the people who are to be added, those of the command line included; empty where the step was skipped.

    Args:
        scene: the dependencies.
        owner: the person who becomes admin now, if any.
        given: people of the command line, for whom nothing is asked.
        adds_roles: whether the configuration file is new, so that roles can be written into it.

    Raises:
        ConfigError: a person of the command line cannot be added.
    """
    found = {}
    for person in given:
        _check(scene, person, owner, adds_roles)
        found[person.key] = person
    if scene.dialogue.silent or given:
        return tuple(found.values())
    scene.dialogue.print("\n4. Other people")
    for preset in PRESETS.values():
        scene.dialogue.print(f"   {preset.name:7}{preset.about}")
    while typed := await scene.dialogue.ask(f"   {FORM} [Enter: done]:"):
        try:
            person = person_of(typed)
            _check(scene, person, owner, adds_roles)
            found[person.key] = person
        except ConfigError as error:
            scene.dialogue.print(f"   ✗ {error}")
    return await _confirm(scene, tuple(found.values())) if found else ()


def _check(scene: Scene, person: Wanted, owner: AdminAnswer | None, adds_roles: bool) -> None:
    """Raise ConfigError where this step cannot add a person; the message says what can."""
    config, preset = scene.loaded.config, person.preset
    command = f"`goclaw users add {person.key} --preset {preset.name}`"
    if owner and person.key == owner.key:
        raise ConfigError(f"{person.key}: that is you, and you are the admin")
    if Users.read(config.users_path).get(person.key):
        raise ConfigError(f"{person.key}: is already listed; {command} shows what would change")
    if preset.settings and preset.role not in config.roles and not adds_roles:
        lacking = f"the configuration stays unchanged and lacks roles.{preset.role}"
        raise ConfigError(f"{person.key}: {lacking}; {command} adds it")


async def _confirm(scene: Scene, people: Sequence[Wanted]) -> Sequence[Wanted]:
    """Show what these people will be able to do; return them unless the person says no."""
    scene.dialogue.print()
    for line in await table(scene.loaded, plan_people(scene.loaded.config, people)):
        scene.dialogue.print(f"   {line}")
    answer = await scene.dialogue.ask("   Add these people? [Enter: yes, n: nobody]:")
    return () if answer.lower() in ("n", "no") else people
