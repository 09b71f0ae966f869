"""The tables of channels as Postgres got them first (`store.channel_state`), and what gateways of then call there.

Such a gateway may run alongside new ones: `gather_part` and `end_group` lock the row of a group, as the statements do
that took their place.
"""

_TABLES = """
CREATE TABLE media_groups (
    name VARCHAR COLLATE "C" PRIMARY KEY, chat BIGINT NOT NULL, sender BIGINT NOT NULL, members BIGINT[],
    is_handed_over BOOLEAN NOT NULL DEFAULT false, changed_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX media_groups_of_chat ON media_groups (chat);
CREATE TABLE media_parts (
    name VARCHAR COLLATE "C" REFERENCES media_groups (name) ON DELETE CASCADE, part BIGINT,
    message TEXT COLLATE "C" NOT NULL, PRIMARY KEY (name, part)
);
CREATE TABLE previews (
    channel VARCHAR COLLATE "C", key VARCHAR COLLATE "C", session VARCHAR COLLATE "C" NOT NULL, message BIGINT NOT NULL,
    noted_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (channel, key)
);
CREATE INDEX previews_of_session ON previews (session);
"""
CHANNEL_FUNCTIONS = """
CREATE FUNCTION gather_part(of_name VARCHAR, of_chat BIGINT, of_sender BIGINT, of_part BIGINT, content TEXT)
RETURNS VARCHAR LANGUAGE plpgsql AS $$
DECLARE
    ended BIGINT[];
    is_known BOOLEAN;
BEGIN
    INSERT INTO media_groups (name, chat, sender) VALUES (of_name, of_chat, of_sender) ON CONFLICT (name) DO NOTHING;
    SELECT members, is_handed_over INTO ended, is_known FROM media_groups WHERE name = of_name FOR UPDATE;
    IF ended IS NOT NULL THEN
        RETURN CASE WHEN NOT of_part = ANY (ended) THEN 'apart' WHEN is_known THEN 'known' ELSE 'gathered' END;
    END IF;
    INSERT INTO media_parts (name, part, message) VALUES (of_name, of_part, content) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        UPDATE media_groups SET changed_at = clock_timestamp() WHERE name = of_name;
    END IF;
    RETURN 'gathered';
END $$;
CREATE FUNCTION end_group(of_name VARCHAR, quiet_seconds DOUBLE PRECISION, at_most BIGINT)
RETURNS DOUBLE PRECISION LANGUAGE plpgsql AS $$
DECLARE
    found RECORD;
    remaining DOUBLE PRECISION;
BEGIN
    SELECT * INTO found FROM media_groups WHERE name = of_name FOR UPDATE;
    IF found.members IS NOT NULL OR found.name IS NULL THEN
        RETURN 0;
    END IF;
    remaining := quiet_seconds - extract(epoch FROM clock_timestamp() - found.changed_at);
    IF remaining > 0 AND (SELECT count(*) FROM media_parts WHERE name = of_name) < at_most THEN
        RETURN remaining;
    END IF;
    UPDATE media_groups SET members = (SELECT array_agg(part ORDER BY part) FROM media_parts WHERE name = of_name)
    WHERE name = of_name;
    RETURN 0;
END $$;
CREATE FUNCTION forget_parts() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM media_parts WHERE name = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER forget_parts AFTER UPDATE OF body ON inbox
    FOR EACH ROW WHEN (NEW.body = '' AND OLD.id LIKE 'telegram:%:%') EXECUTE FUNCTION forget_parts();
"""
"""Functions and indexes; created in a new schema, too."""
CHANNELS = _TABLES + CHANNEL_FUNCTIONS
