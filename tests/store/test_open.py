"""What is loaded for which store."""

import subprocess
import sys

LOADED = """
import sys
import goclaw.app, goclaw.store.open, goclaw.engine.lanes, goclaw.turns.service, goclaw.schedules.rows
from goclaw.store import reading, spending, transcripts
names = ("psycopg", "psycopg_binary", "goclaw.store.postgres", "sqlalchemy.dialects.postgresql")
print([name for name in sorted(sys.modules) if name.startswith(names)])
"""


def test_with_sqlite_no_module_of_postgres_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
