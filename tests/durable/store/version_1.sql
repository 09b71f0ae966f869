-- The tables of version 1, as the first GoClaw made them.
CREATE TABLE compactions (
    id INTEGER NOT NULL,
    session VARCHAR NOT NULL,
    created_at FLOAT NOT NULL,
    summary TEXT NOT NULL,
    source VARCHAR NOT NULL,
    first_kept INTEGER NOT NULL,
    tokens_before INTEGER NOT NULL,
    tokens_after INTEGER NOT NULL,
    retry_owed BOOLEAN DEFAULT '0' NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX compactions_by_session ON compactions (session, id);
CREATE TABLE deliveries (
    seq INTEGER NOT NULL,
    id VARCHAR NOT NULL,
    channel VARCHAR NOT NULL,
    chat VARCHAR NOT NULL,
    body TEXT NOT NULL,
    state VARCHAR NOT NULL,
    receipt TEXT,
    error TEXT,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT deliveries_id UNIQUE (id)
);
CREATE INDEX deliveries_open ON deliveries (state, seq);
CREATE TABLE inbox (
    seq INTEGER NOT NULL,
    id VARCHAR NOT NULL,
    session VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    body TEXT NOT NULL,
    state VARCHAR NOT NULL,
    received_at FLOAT NOT NULL,
    ended_at FLOAT,
    PRIMARY KEY (seq),
    CONSTRAINT inbox_id UNIQUE (id)
);
CREATE INDEX inbox_open ON inbox (state, seq);
CREATE TABLE messages (
    id INTEGER NOT NULL,
    session VARCHAR NOT NULL,
    turn VARCHAR NOT NULL,
    step VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    text TEXT NOT NULL,
    name VARCHAR,
    call_id VARCHAR,
    input TEXT,
    is_error BOOLEAN DEFAULT '0' NOT NULL,
    images TEXT,
    context TEXT DEFAULT '' NOT NULL,
    native_provider VARCHAR,
    native_schema INTEGER,
    native TEXT,
    sender VARCHAR DEFAULT '' NOT NULL,
    created_at FLOAT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX messages_by_session ON messages (session, id);
CREATE TABLE sessions (
    "key" VARCHAR NOT NULL,
    created_at FLOAT NOT NULL,
    context_start INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY ("key")
);
CREATE TABLE steps (
    turn VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    output TEXT,
    PRIMARY KEY (turn, name)
);
PRAGMA user_version=1;
