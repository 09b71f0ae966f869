"""What is loaded for which store."""

import subprocess
import sys

import pytest

from tests import house

LOADED = """
import sys

from tests import house
import goclaw.program.app, goclaw.durable.store.open, goclaw.durable.engine.lanes
import goclaw.conversation.turns.service, goclaw.conversation.schedules.rows
from goclaw.durable.store import reading, spending, transcripts
names = ("psycopg", "psycopg_binary", "goclaw.durable.store.postgres", "sqlalchemy.dialects.postgresql")
print([name for name in sorted(sys.modules) if name.startswith(names)])
"""


def test_with_sqlite_no_module_of_postgres_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.house
def test_a_driver_is_known_to_its_store_alone() -> None:
    homes = {"psycopg": "goclaw/durable/store/postgres/", "aiosqlite": "goclaw/durable/store/sqlite/"}
    strangers = [
        f"{house.name_of(path)} imports {found.module}"
        for path in house.python_files("goclaw")
        for found in house.imports(path)
        if (home := homes.get(found.module.split(".")[0])) and not house.name_of(path).startswith(home)
    ]
    assert strangers == []
