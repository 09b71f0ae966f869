FROM python:3.11.15-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
# Buildah rounds times of files, and Python ignores bytecode whose source has another time: `goclaw status` took seconds.
ENV PYC_INVALIDATION_MODE=UNCHECKED_HASH
WORKDIR /src
COPY requirements-uv.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-uv.lock && uv venv --python /usr/local/bin/python3 /app
# The lock changes less often than the code: its layer is built first and kept.
COPY requirements-postgres.lock ./
RUN uv pip install --python /app --compile-bytecode --require-hashes -r requirements-postgres.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY goclaw ./goclaw
# --offline: uv builds with its own copy of the build backend, so that nothing unpinned can come in here.
RUN uv pip install --python /app --compile-bytecode --no-deps --offline . \
    && find /app/lib -type d -name tests -path '*/site-packages/*' -prune -exec rm -r {} +

FROM python:3.11.15-slim-bookworm
# What commands of an agent expect, and `ps` for people. The versions are Debian's of the day of the build: only those get security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl git procps \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
RUN groupadd --gid 10001 goclaw \
    && useradd --uid 10001 --gid goclaw --home-dir /data --no-create-home --shell /usr/sbin/nologin goclaw \
    && install --directory --owner=goclaw --group=goclaw --mode=0700 /data /data/state /data/shared
COPY --from=build /app /app
# No bubblewrap: Docker's default profile forbids what it needs. Commands run in the Landlock broker instead.
ENV PATH=/app/bin:$PATH \
    HOME=/data \
    container=oci \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GOCLAW_STATE_DIR=/data/state \
    GOCLAW_WORKSPACE=/data/workspace
# /data/shared: where several gateways mount one volume, which begins with the owner that this has.
# Not the workspace: GoClaw makes it, with the first files of the agent in it.
WORKDIR /data
USER 10001:10001
VOLUME /data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 CMD ["goclaw", "status"]
ENTRYPOINT ["goclaw"]
CMD ["gateway"]
