"""A git checkout with the environment `.venv` that `scripts/run` makes.

The new version is exported to `.tools/upgrade/<version>-<commit>` and gets an environment there, by its own
`scripts/_bootstrap.py`. That environment takes the place of `.venv` while it still imports GoClaw from the exported
tree: so the checkout itself may change afterwards, file by file, and a kill in between costs nothing. At the end
`.venv` imports from the checkout again. The exported tree stays until the next upgrade, for the daemon that began
with it.
"""

import re
import tarfile
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from goclaw.common.core.container import daemon_command
from goclaw.errors import StateError
from goclaw.program.ops.backup.swap import remove
from goclaw.program.ops.upgrade.changes import LIST_RELEASES, Source, newest_release, numbers, version_of
from goclaw.program.ops.upgrade.installation import (
    Release,
    base_python,
    command,
    packages_of,
    rewrite_paths,
    scripts_of,
    tree,
)
from goclaw.program.ops.upgrade.journal import Journal, Phase

ENVIRONMENT = ".venv"
FOLDER = Path(".tools", "upgrade")
GUARD = "switched"
"""While this file is in `FOLDER`, `scripts/run` takes `.venv` as it is: it is of another version than the checkout."""
_TEXTS = ("pyproject.toml", "CHANGELOG.md", "goclaw/durable/store/sqlite/migrations.py")
_IDENTITY = ("-c", "user.name=goclaw upgrade", "-c", "user.email=")
"""A stash is a commit, and a machine that only runs GoClaw often has no name for git."""
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class Checkout:
    """Implements `installation.Installation`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / ENVIRONMENT

    @property
    def description(self) -> str:
        return f"git checkout {self.root}"

    def check(self) -> None:
        changed = self._git("status", "--porcelain", "--untracked-files=no").splitlines()
        if changed:
            names = ", ".join(line[3:] for line in changed[:5])
            more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise StateError(
                f"{self.root}: has uncommitted changes: {names}{more}. Keep them with `git stash` or `git commit`, or "
                "drop them with `git restore .`, then upgrade"
            )

    def find_release(self, ref: str) -> tuple[Release, Source]:
        name = ref or newest_release(self._git(*LIST_RELEASES, self._remote()), self._remote())
        with tempfile.TemporaryDirectory(prefix="goclaw-upgrade-") as folder:
            aside = Path(folder)
            command(["git", "init", "--quiet", "--bare", folder])
            try:
                commit = self._fetch(aside, name)
            except StateError:
                if not ref or not (commit := self._resolve(ref)):
                    raise
                aside = self.root
            texts = [self._text(aside, commit, path) for path in _TEXTS]
        version = version_of(texts[0])
        if not version:
            raise StateError(f"{name}: has no pyproject.toml with a version, so it is not GoClaw")
        return Release(version, name, commit), Source(version, texts[1], texts[2])

    def fetch(self, release: Release) -> None:
        if not self._resolve(release.commit):
            # By name: many servers give no commit by its number.
            self._git("fetch", "--quiet", "--tags", self._remote())
        if not self._resolve(release.commit):
            self._git("fetch", "--quiet", self._remote(), release.name)

    def journal(self, release: Release, old: str) -> Journal:
        source = self.root / FOLDER / f"{release.version}-{release.commit[:12]}"
        return Journal(
            Phase.PREPARING,
            old,
            release.version,
            self.home,
            source / ENVIRONMENT,
            root=self.root,
            source=source,
            commit=release.commit,
        )

    def install(self, release: Release, journal: Journal) -> None:
        source = _source(journal)
        if source == tree():
            raise StateError(
                f"{source}: the daemon runs from this very tree; {daemon_command('restart')}, then upgrade"
            )
        remove(source)
        source.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix="goclaw-upgrade-") as aside:
            packed = Path(aside, "tree.tar")
            self._git("-c", "tar.umask=0022", "archive", "--format=tar", "-o", str(packed), release.commit)
            unpack(packed, source)
        script = source / "scripts" / "_bootstrap.py"
        variables = {"GOCLAW_INSTALL_FOR": str(self.root)}
        if _has("pydantic-ai-slim"):
            variables["WITH_PROVIDERS"] = "1"
        if _has("psycopg"):
            variables["WITH_POSTGRES"] = "1"
        command([base_python(), script, "run"], variables=variables)
        rewrite_paths(scripts_of(journal.beside), journal.beside, journal.home)

    def way_back(self, old: str) -> str:
        tag = f"v{old}"
        return f"git -C {self.root} checkout {tag if self._resolve(tag) else self._git('rev-parse', 'HEAD')[:12]}"

    def _remote(self) -> str:
        remotes = self._git("remote").split()
        if not remotes:
            raise StateError(f"{self.root}: has no remote to fetch from; `git remote add origin URL`")
        return "origin" if "origin" in remotes else remotes[0]

    def _fetch(self, aside: Path, name: str) -> str:
        """Fetch one commit into another repository and return its number: nothing here changes."""
        url = self._git("remote", "get-url", self._remote()).strip()
        place = url if "://" in url or re.match(r"[\w.-]+@?[\w.-]*:", url) else str((self.root / url).resolve())
        tag = f"refs/tags/{name}" if numbers(name) else name
        command(["git", "-C", aside, "fetch", "--quiet", "--depth", "1", place, tag])
        return command(["git", "-C", aside, "rev-parse", "FETCH_HEAD^{commit}"]).strip()

    def _resolve(self, name: str) -> str:
        """Return the commit that a name stands for in this checkout; empty: for none."""
        try:
            found = self._git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}").strip()
        except StateError:
            return ""
        return found if _COMMIT.fullmatch(found) else ""

    def _text(self, repository: Path, commit: str, path: str) -> str:
        try:
            return command(["git", "-C", repository, "show", f"{commit}:{path}"])
        except StateError:
            return ""

    def _git(self, *arguments: str) -> str:
        return git(self.root, *arguments)


def unpack(packed: Path, folder: Path) -> None:
    """Unpack a tar file of ours into a folder, made when missing; links that lead out of it are refused."""
    with tarfile.open(packed) as members:
        # Python 3.11.2, which Debian 12 has, knows no filters.
        if hasattr(tarfile, "data_filter"):
            members.extraction_filter = tarfile.data_filter
        members.extractall(folder)  # noqa: S202 -- filtered above where Python can, and packed by our own git


def git(root: Path, *arguments: str) -> str:
    """Run git in a checkout, without its hooks; returns its output."""
    return command(["git", "-C", root, "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", *arguments])


def guard(journal: Journal) -> None:
    """Let `scripts/run` leave the environment alone, before that is of another version than the checkout."""
    if journal.root:
        (journal.root / FOLDER / GUARD).touch()


def unguard(journal: Journal) -> None:
    """Let `scripts/run` look after the environment again."""
    if journal.root:
        (journal.root / FOLDER / GUARD).unlink(missing_ok=True)


def follow(journal: Journal) -> None:
    """Bring the checkout to the version of its environment, and let that import from it again.

    May be cut anywhere and done again.

    Raises:
        StateError: git cannot check the commit out.
    """
    if journal.root is None:
        return
    source = _source(journal)
    if _is_dirty(journal.root) or git(journal.root, "rev-parse", "HEAD").strip() != journal.commit:
        _check_out(journal.root, journal.commit)
    packages = packages_of(journal.home)
    # As a URL, too: an editable install says where it is from.
    rewrite_paths([*packages.glob("*.pth"), *packages.glob("goclaw-*.dist-info/direct_url.json")], source, journal.root)
    unguard(journal)
    for other in source.parent.iterdir():
        if other.is_dir() and other != source:
            remove(other)


def _check_out(root: Path, commit: str) -> None:
    """Check a commit out. Changes since the upgrade began, and halves of a checkout that was cut, go to git's stash."""
    if _is_dirty(root):
        git(root, *_IDENTITY, "stash", "push", "--quiet", "--message", f"before the upgrade to {commit[:12]}")
    # What a checkout that was cut has made already is in the way of the next.
    git(root, "checkout", "--quiet", "--force", "--detach", commit)


def _is_dirty(root: Path) -> bool:
    return bool(git(root, "status", "--porcelain", "--untracked-files=no").strip())


def _source(journal: Journal) -> Path:
    if journal.source is None:
        raise StateError("the journal of the upgrade names no exported tree")
    return journal.source


def _has(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
