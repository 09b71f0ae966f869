"""Docker Compose 2 from Debian 13, unpacked into `.tools/containers`: Debian 12 has only the first generation of it."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.containers.engine import CACHE, Engine, Missing

SUITE = "trixie"
VERSION = "2.26.1-4"
SHA256 = "47681197cb2b1ab88206b42a1a92fc75f50d9530a6322d03494a473eed0408ea"
"""Of Debian's package for amd64."""
PLUGIN = CACHE / f"compose-{VERSION}" / "docker-compose"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECONDS = 180


def find_compose() -> Path | None:
    """Return a Compose 2 that is on this machine: the lane's own, or the client's plugin."""
    places = [PLUGIN, *(Path(folder, "docker/cli-plugins/docker-compose") for folder in ("/usr/libexec", "/usr/lib"))]
    return next((place for place in places if place.exists()), None)


def add_compose(engine: Engine) -> None:
    """Have `docker compose` work with this engine's client."""
    plugins = engine.folder / "client" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-compose").symlink_to(ensure_compose())


def ensure_compose() -> Path:
    """Return the plugin's path; it is downloaded by apt, from the machine's own mirror, when it is not there.

    Raises:
        Missing: no apt, no mirror of Debian, or another file than the one that is expected.
    """
    if PLUGIN.exists():
        return PLUGIN
    if not shutil.which("apt-get"):
        raise Missing("no apt-get: Compose is unpacked from a package of Debian")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        package = _download(Path(name))
        found = hashlib.sha256(package.read_bytes()).hexdigest()
        if found != SHA256:
            raise Missing(f"{package.name} has the checksum {found}, not {SHA256}")
        _call(["dpkg-deb", "--extract", str(package), f"{name}/unpacked"], Path(name))
        PLUGIN.parent.mkdir(exist_ok=True)
        Path(name, "unpacked/usr/libexec/docker/cli-plugins/docker-compose").rename(PLUGIN)
    return PLUGIN


def _download(folder: Path) -> Path:
    """Download the package with lists and a cache of its own: the machine's apt does not notice."""
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYS}] {_mirror()} {SUITE} main\n")
    options = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        # Its own user may not enter the folder.
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    _call([*apt, "update"], folder)
    _call([*apt, "download", f"docker-compose={VERSION}"], folder)
    return next(folder.glob("*.deb"))


def _mirror() -> str:
    """Return the address from which this machine gets Debian's packages."""
    listed = _call(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Component: main"], CACHE)
    found = [line for line in listed.split() if "security" not in line]
    if not found:
        raise Missing("this machine's apt knows no archive of Debian: run `apt-get update` first")
    return found[0]


def _call(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise Missing(f"{' '.join(command)}: {done.stderr[-500:]}")
    return done.stdout
