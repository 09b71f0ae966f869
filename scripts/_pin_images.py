"""Write the digest of every image of the Dockerfile and the Compose files behind its tag (see scripts/pin-images).

    scripts/pin-images    `FROM python:3.11.14-slim-bookworm` becomes `FROM python:3.11.14-slim-bookworm@sha256:…`

A tag can be moved by who owns it, a digest cannot. The registry of each image is asked without credentials (the
distribution specification's `GET /v2/<name>/manifests/<tag>`, with the token that it offers to everybody). Digests that
are there are replaced by the current ones of their tags. All or nothing: when one image cannot be looked up, no file
changes. Images of this checkout (names with a variable) and stages of the Dockerfile are left alone. Only the standard
library; exits 0, or 1 with the reason.
"""

import hashlib
import http.client
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
FILES = ("Dockerfile", "docker-compose.yml", "deploy/replicas/docker-compose.yml")
NAMED = re.compile(
    r"^(?P<before>\s*(?:FROM\s+(?:--\S+\s+)*|image:\s*))(?P<image>[^\s#]+)", re.MULTILINE | re.IGNORECASE
)
STAGE = re.compile(r"^\s*FROM\s.*\sAS\s+(\S+)\s*$", re.MULTILINE | re.IGNORECASE)
EXACT = re.compile(r"v?\d+\.\d+\.\d+")
"""A tag begins with a whole version: shorter ones are moved with every release."""
IN_TWO_PARTS = re.compile(r"\d+\.\d+(?![.\d])")
WITH_TWO_PARTS = frozenset({"postgres"})
"""Images whose whole versions have two numbers (postgresql.org/support/versioning)."""
HUB = "registry-1.docker.io"
"""Where images lie whose name begins with no host."""
ACCEPTED = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""Lists of images for several processors first: their digest holds for all of them."""
SECONDS = 30
MAX_BYTES = 4 << 20
"""Of an answer; the specification's limit for a manifest."""


class PinError(Exception):
    """An image cannot be pinned; the message says which and why."""


@dataclass(frozen=True)
class Image:
    """A reference to an image, in its parts."""

    written: str
    """As in the file, without its digest."""
    host: str
    path: str
    tag: str

    @property
    def address(self) -> str:
        """Return the URL of its manifest. As in Docker, only registries of this machine are asked without TLS."""
        scheme = "http" if is_loopback(self.host) else "https"
        return f"{scheme}://{self.host}/v2/{self.path}/manifests/{urllib.parse.quote(self.tag)}"


def main(arguments: list[str]) -> int:
    """Look all images up, then write the files; return the exit code."""
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        texts = {ROOT / name: (ROOT / name).read_text("utf-8") for name in FILES}
        places = {str(path.relative_to(ROOT)): text for path, text in texts.items()}
        named = {image.written: image for place, text in places.items() for image in images(text, place)}
        digests = {written: digest_of(image) for written, image in sorted(named.items())}
        for path, text in texts.items():
            replace(path, pinned(text, digests))
    except (PinError, OSError) as error:
        print(f"pin-images: {error}; no file was changed", file=sys.stderr)
        return 1
    for written, digest in digests.items():
        print(f"{written}@{digest}")
    return 0


def images(text: str, file: str) -> Iterator[Image]:
    """Yield the images of others that a file names; raise PinError for one without an exact version."""
    stages = set(STAGE.findall(text))
    for found in NAMED.finditer(text):
        written = found["image"].partition("@")[0].strip("\"'")
        if "$" in written or written in stages or written == "scratch":
            continue
        line = text.count("\n", 0, found.start("image")) + 1
        yield parsed(written, f"{file}:{line}")


def parsed(written: str, place: str) -> Image:
    """Return the parts of a reference, as Docker reads them."""
    name, _, tag = written.rpartition(":")
    has_two = name.rpartition("/")[2] in WITH_TWO_PARTS
    if not name or not (EXACT.match(tag) or (has_two and IN_TWO_PARTS.match(tag))):
        raise PinError(f"{place}: {written} has no exact version as its tag, such as {name or written}:1.2.3")
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or set(".:") & set(first)):
        return Image(written, HUB if first == "docker.io" else first, rest, tag)
    return Image(written, HUB, name if slash else f"library/{name}", tag)


def pinned(text: str, digests: Mapping[str, str]) -> str:
    """Return the text with the digest behind every tag that is in `digests`."""

    def with_digest(found: re.Match[str]) -> str:
        written = found["image"].partition("@")[0].strip("\"'")
        return f"{found['before']}{written}@{digests[written]}" if written in digests else found[0]

    return NAMED.sub(with_digest, text)


def digest_of(image: Image) -> str:
    """Return the digest of a tag's manifest, computed from the manifest itself."""
    headers = {"Accept": ", ".join(ACCEPTED)}
    try:
        try:
            answer, body = fetch(image.address, headers)
        except urllib.error.HTTPError as error:
            if error.code != http.client.UNAUTHORIZED:
                raise
            offered = error.headers.get("WWW-Authenticate", "")
            token = token_of(offered, image)
            answer, body = fetch(image.address, {**headers, "Authorization": f"Bearer {token}"})
    except urllib.error.HTTPError as error:
        known = "the registry has no such tag" if error.code == http.client.NOT_FOUND else f"HTTP {error.code}"
        raise PinError(f"{image.written}: {known} ({image.host})") from error
    except (OSError, http.client.HTTPException) as error:
        raise PinError(f"{image.written}: {image.host} cannot be reached: {getattr(error, 'reason', error)}") from error
    if answer.get("Content-Type", "").partition(";")[0] not in ACCEPTED:
        raise PinError(f"{image.written}: {image.host} answered with no manifest, but {answer.get('Content-Type')}")
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    if (said := answer.get("Docker-Content-Digest", digest)) != digest:
        raise PinError(f"{image.written}: {image.host} calls its manifest {said}, but it is {digest}")
    return digest


def token_of(offered: str, image: Image) -> str:
    """Return a token for reading an image, from where the registry's challenge `Bearer realm=…` says."""
    kind, _, rest = offered.partition(" ")
    challenge = dict(re.findall(r'(\w+)="([^"]*)"', rest))
    realm = urllib.parse.urlsplit(challenge.get("realm", ""))
    if kind.lower() != "bearer" or not (realm.scheme == "https" or is_loopback(realm.netloc)):
        raise PinError(f"{image.written}: {image.host} wants a login, or offers no token over HTTPS")
    wanted = {"service": challenge.get("service", ""), "scope": f"repository:{image.path}:pull"}
    _, body = fetch(f"{realm.geturl()}?{urllib.parse.urlencode(wanted)}", {})
    try:
        given = json.loads(body)
        return str(given.get("token") or given["access_token"])
    except (ValueError, KeyError, AttributeError) as error:
        raise PinError(f"{image.written}: {realm.hostname} gave no token") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Lets a redirect be an error: the token is for the asked host only."""

    def redirect_request(self, *_: object) -> None:
        return None


OPENER = urllib.request.build_opener(_NoRedirects)


def fetch(address: str, headers: Mapping[str, str]) -> tuple[Mapping[str, str], bytes]:
    """Return the headers and the body of an answer of at most MAX_BYTES."""
    with OPENER.open(urllib.request.Request(address, headers=dict(headers)), timeout=SECONDS) as answer:  # noqa: S310 -- http and https only, by `Image.address` and `token_of`
        return answer.headers, _bounded(answer)


def _bounded(answer: IO[bytes]) -> bytes:
    body = answer.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise OSError(f"it answered with more than {MAX_BYTES >> 20} MB")
    return body


def is_loopback(host: str) -> bool:
    """Tell whether a host, perhaps with a port, is this machine."""
    return urllib.parse.urlsplit(f"//{host}").hostname in ("localhost", "127.0.0.1", "::1")


def replace(path: Path, text: str) -> None:
    """Write a file in one step, with the rights that it has."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, "utf-8")
    fresh.chmod(path.stat().st_mode & 0o777)
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
