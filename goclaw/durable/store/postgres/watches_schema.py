"""Table on Postgres alone: which process has readers for which session.

Unlogged: after a crash of Postgres it is empty, and each process notes its watches again when it is connected again.
"""

WATCHES = """
CREATE UNLOGGED TABLE session_watches (
    session VARCHAR COLLATE "C" NOT NULL, replica VARCHAR COLLATE "C" NOT NULL, until TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (session, replica)
);
"""
