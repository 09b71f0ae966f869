# Runs inside a new Debian: what the official image of Postgres has beside the programs. Its entry point sets a cluster up
# as the official one does: the password of a file, the database, then every script of docker-entrypoint-initdb.d.
groupadd --system --gid 999 postgres
useradd --system --uid 999 --gid postgres --home-dir /var/lib/postgresql --shell /bin/bash postgres
install --directory --owner=postgres --group=postgres --mode=1777 /var/lib/postgresql
install --directory --owner=postgres --group=postgres --mode=3777 /var/run/postgresql
mkdir -p /docker-entrypoint-initdb.d
cat > /usr/local/bin/docker-entrypoint.sh <<'END'
#!/bin/bash
set -eu
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown -R postgres "$PGDATA" /var/run/postgresql
    chmod 700 "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
fi
sockets=/var/run/postgresql
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    password=${POSTGRES_PASSWORD:-$(cat "$POSTGRES_PASSWORD_FILE")}
    initdb --username="${POSTGRES_USER:-postgres}" --pwfile=<(printf '%s\n' "$password") --encoding=UTF8 --locale=C.UTF-8
    printf 'host all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses='' -c unix_socket_directories=$sockets" -w start
    export PGHOST=$sockets
    if [ "${POSTGRES_DB:-postgres}" != postgres ]; then
        psql --username "${POSTGRES_USER:-postgres}" --dbname postgres --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db";'
    fi
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
            *.sql) psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname "${POSTGRES_DB:-postgres}" -f "$file" ;;
        esac
    done
    unset PGHOST
    pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec "$@" -c listen_addresses='*' -c unix_socket_directories="$sockets"
END
chmod 755 /usr/local/bin/docker-entrypoint.sh
