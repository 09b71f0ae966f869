"""`python -m tests.acceptance.next_version … gateway`: the very same daemon as a version that has one more step.

The step only adds, as every step of a minor version does (`goclaw.durable.store.postgres.schema`).
"""

from importlib import import_module
from typing import Any

import goclaw

VERSION = "99.1.0"
STEP = """
ALTER TABLE sessions ADD COLUMN of_the_next VARCHAR COLLATE "C" NOT NULL DEFAULT 'new';
ALTER TABLE messages ADD COLUMN of_the_next BIGINT;
CREATE TABLE next_things (id BIGINT PRIMARY KEY);
CREATE INDEX next_inbox ON inbox (received_at);
"""


def become_the_next_version() -> None:
    """Change this process, before the modules that read the version are imported."""
    goclaw.__version__ = VERSION
    schema: Any = import_module("goclaw.durable.store.postgres.schema")
    beside: Any = import_module("goclaw.durable.store.postgres.beside")
    schema.STEPS = (*schema.STEPS, schema.SchemaStep(STEP, of_both_stores=False))
    schema.NEWEST = beside.NEWEST = schema.NEWEST + 1


if __name__ == "__main__":
    become_the_next_version()
    import_module("goclaw.program.cli.program").main()
