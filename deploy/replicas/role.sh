#!/bin/sh
# Makes the role of the gateways: it may use the schema that it owns, and nothing else of the database.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname "$POSTGRES_DB" \
    --set password="$(cat "${STORE_PASSWORD_FILE:-/run/secrets/store_password}")" <<'SQL'
CREATE ROLE goclaw LOGIN PASSWORD :'password';
CREATE SCHEMA goclaw AUTHORIZATION goclaw;
SQL
