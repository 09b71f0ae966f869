"""README's two commands on a Debian that was just installed, by root in `/root` and by a user without sudo.

The whole of `scripts/test` takes too long here: its set-up and a selection of tests run, Postgres and the sandbox among
them, with files that others cannot read.
"""

from collections.abc import Iterator

import pytest

from tests.containers.engine import Engine
from tests.containers.machine import SET_UP_SECONDS, SUITES, USER, Machine, running_machine

pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.promise("P-installs"), pytest.mark.timeout(1800)]

REMEDY = "apt-get install python3-venv"
SELECTION = (
    "tests/test_scripts.py tests/test_postgres.py tests/durable/store/postgres/test_database.py "
    "tests/program/cli/test_send.py"
)


@pytest.fixture(scope="module", params=SUITES)
def machine(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A Debian with Python, where the set-up has said what it lacks, and root has done just that."""
    with running_machine(engine, request.param) as made:
        place = made.copy_checkout("root")
        refused = made.run(f"{place}/scripts/run version", check=False)
        assert refused.returncode == 1 and REMEDY in refused.stderr and "Traceback" not in refused.stderr
        made.run(f"rm -r {place} && apt-get update -qq && {REMEDY} -yqq", seconds=SET_UP_SECONDS)
        yield made


@pytest.mark.parametrize("user", ["root", USER])
def test_the_two_commands_of_the_readme_work(machine: Machine, user: str) -> None:
    place = machine.copy_checkout(user)
    machine.run(f"chmod 700 . && chmod -R go= {place}", user)
    machine.run(f"nohup {place}/scripts/run > run.log 2>&1 < /dev/null &", user)
    machine.until("grep 'GoClaw is running' run.log", user, SET_UP_SECONDS)
    assert "You said: hi" in machine.run(f"{place}/scripts/run send hi", user).stdout
    assert (
        "exit code: 0" in machine.run(f"""{place}/scripts/run send '/tool exec {{"command": "true"}}'""", user).stdout
    )
    machine.run(f"{place}/scripts/run stop", user)
    tested = machine.run(f"umask 077 && {place}/scripts/test -q {SELECTION}", user, 1_200, check=False)
    assert tested.returncode == 0, tested.stdout[-3_000:] + tested.stderr[-1_000:]
    assert " passed" in tested.stdout
