"""`python -m tests.acceptance.next_version … gateway`: the very same daemon as a version that has one more step.

The step only adds, as every step of a minor version does (`goclaw.store.postgres.schema`).
"""

import goclaw

VERSION = "99.1.0"
goclaw.__version__ = VERSION  # before the modules that read it are imported

from goclaw.cli.program import main  # noqa: E402
from goclaw.store.postgres import beside, schema  # noqa: E402

STEP = """
ALTER TABLE sessions ADD COLUMN of_the_next VARCHAR COLLATE "C" NOT NULL DEFAULT 'new';
ALTER TABLE messages ADD COLUMN of_the_next BIGINT;
CREATE TABLE next_things (id BIGINT PRIMARY KEY);
CREATE INDEX next_inbox ON inbox (received_at);
"""

if __name__ == "__main__":
    schema.STEPS = (*schema.STEPS, schema.SchemaStep(STEP, of_both_stores=False))
    schema.NEWEST = beside.NEWEST = schema.NEWEST + 1
    main()
