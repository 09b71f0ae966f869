"""Vectors of messages, which all gateways of a schema use: each pays only for those that no other one has made.

A vector belongs to a session, and goes in the transaction that deletes anything that was said there, whatever deletes
it. The same triggers tell every gateway that its index has to forget. Vectors of notes are not shared: each gateway
makes those of its own folder.
"""

from collections.abc import Mapping, Sequence

from goclaw.durable.store.database import Database, Statement

DELETED = "deleted"
"""Topic of the notices that something was deleted that was said (`store.postgres.notices`)."""
VECTORS_TABLE = "vectors"
VECTORS = f"""
CREATE TABLE {VECTORS_TABLE} (
    model VARCHAR COLLATE "C" NOT NULL, sha256 BYTEA NOT NULL, session VARCHAR COLLATE "C" NOT NULL,
    vector BYTEA NOT NULL, PRIMARY KEY (model, sha256, session)
);
CREATE INDEX vectors_by_session ON vectors (session);
CREATE FUNCTION delete_vectors() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM vectors WHERE session IN (SELECT DISTINCT session FROM gone);
    IF EXISTS (SELECT 1 FROM gone) THEN
        PERFORM pg_notify('{DELETED}_' || md5(current_schema()), '');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER messages_deleted AFTER DELETE ON messages
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION delete_vectors();
CREATE FUNCTION keep_vector(of_model VARCHAR, of_text BYTEA, of_session VARCHAR, made BYTEA)
    RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM sessions WHERE key = of_session FOR KEY SHARE;
    IF FOUND THEN
        INSERT INTO vectors (model, sha256, session, vector) VALUES (of_model, of_text, of_session, made)
        ON CONFLICT DO NOTHING;
    END IF;
END $$;
"""  # noqa: S608  # our own words
"""`FOR KEY SHARE`: a vector waits for the transaction that forgets its session, and is not kept then."""
_FIND = Statement(
    "SELECT DISTINCT ON (sha256) sha256, vector FROM vectors WHERE model = :model AND sha256 = ANY(:texts)"
)
_KEEP = Statement("SELECT keep_vector(:model, :sha256, :session, :vector)")


class PostgresVectors:
    """Implements `store.replicas.SharedVectors`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, model: str, texts: Sequence[bytes]) -> Mapping[bytes, bytes]:
        rows = await self._database.read(_FIND(model=model, texts=list(texts)))
        return {bytes(row["sha256"]): bytes(row["vector"]) for row in rows}

    async def store(self, model: str, vectors: Sequence[tuple[str, bytes, bytes]]) -> None:
        rows = [_KEEP(model=model, sha256=sha256, session=session, vector=made) for session, sha256, made in vectors]
        await self._database.write(*rows)
