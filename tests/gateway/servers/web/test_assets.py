"""The files of the page: which are served, how they are locked down, and that browsers fetch each once."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from goclaw.gateway.servers.web.assets import FOLDER, TYPES, read_assets
from tests.gateway.servers.api.calling import service, world_with
from tests.gateway.servers.web.calling import Browser, serving_pages, web_world

pytestmark = pytest.mark.promise("P-web-closed")
DIRECTIVES = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob: data:",
    "connect-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types goclaw",
}


async def test_every_file_of_the_page_is_locked_down_and_fetched_once(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    files = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix in TYPES]
    assert "index.html" in files
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        for path in ("/", *(f"/web/{name}" for name in files)):
            plain, small = await browser.get(path), await browser.get(path, Accept_Encoding="br, gzip")
            assert plain.status == small.status == 200, path
            assert set(small.headers["Content-Security-Policy"].split("; ")) == DIRECTIVES
            assert small.headers["X-Frame-Options"] == "DENY" and small.headers["Referrer-Policy"] == "no-referrer"
            assert small.headers["X-Content-Type-Options"] == "nosniff"
            assert small.headers["Cross-Origin-Opener-Policy"] == "same-origin"
            assert small.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert "camera=()" in small.headers["Permissions-Policy"] and small.headers["Cache-Control"] == "no-cache"
            is_gzip = small.headers.get("Content-Encoding") == "gzip"
            assert (gzip.decompress(small.said) if is_gzip else small.said) == plain.said
            assert "Content-Encoding" not in plain.headers
            assert (small.headers["ETag"] != plain.headers["ETag"]) is is_gzip
            again = await browser.get(path, Accept_Encoding="gzip", If_None_Match=f'"x", {small.headers["ETag"]}')
            assert again.status == 304 and again.said == b"" and again.headers["ETag"] == small.headers["ETag"]


@pytest.mark.promise("P-web-closed")
async def test_the_index_names_files_by_their_content_which_a_browser_keeps(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        index = (await browser.get("/")).said.decode()
        named = re.findall(r'"(/web/[^"]+\.(?:js|css))"', index)
        assert len(named) >= 7 and len({path.split("/")[2] for path in named}) == 1
        for path in named:
            heard = await browser.get(path)
            assert heard.headers["Cache-Control"] == "public, max-age=31536000, immutable", path
            assert heard.said == (FOLDER / path.split("/")[3]).read_bytes()
            other = re.sub(r"v-\w+", "v-0123456789abcdef", path)
            stale = await browser.get(other)
            assert stale.said == heard.said and stale.headers["Cache-Control"] == "no-cache", "of an earlier daemon"
        for path in ("/web/v-0123456789abcdef/", "/web/v-0/app.js", f"{named[0]}/x"):
            assert (await browser.get(path)).status in (400, 404), path


def test_another_content_has_another_version(tmp_path: Path) -> None:
    (tmp_path / "app.js").write_text("1")
    before = read_assets(tmp_path).version
    (tmp_path / "app.js").write_text("2")
    assert read_assets(tmp_path).version != before == re.sub("[^0-9a-f]", "", before)


async def test_no_other_path_leads_to_a_file(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        for path in (
            "/web/",
            "/web/nothing.js",
            "/web/../__init__.py",
            "/web/%2e%2e/__init__.py",
            "/web/..%2f__init__.py",
            "/web/%2e%2e%2f%2e%2e%2fpyproject.toml",
            "/web/..%5c__init__.py",
            "/web//etc/passwd",
            "/web/%2fetc%2fpasswd",
            "/web/index.html%00.js",
            "/web/./index.html",
            "/web/index.html/",
            "/web/INDEX.HTML",
            "/web/%69ndex.html/..",
        ):
            heard = await pages.browser().get(path)
            assert heard.status in (400, 404), path
            assert not isinstance(heard.said, bytes) or b"root:" not in heard.said
        for method in ("POST", "PUT", "DELETE"):
            assert (await pages.browser().send(method, "/")).status == 405
            assert (await pages.browser().send(method, "/web/index.html")).status == 405


@pytest.mark.promise("P-web-off")
async def test_without_the_key_none_of_its_paths_is_there(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        browser = Browser(served.port)
        for path in ("/", "/web/index.html", "/web/me", "/web/ws"):
            assert (await browser.get(path)).status == 404, path
        cookie = f"goclaw_{served.port}={served.secret()}"
        assert (await browser.get("/api/v1/sessions", Cookie=cookie)).status == 401


def test_hidden_files_and_those_of_unknown_kinds_are_not_served(tmp_path: Path) -> None:
    for name in ("index.html", ".secret.js", "notes.txt", "page.py", "icons/a.svg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert sorted(read_assets(tmp_path).names) == ["icons/a.svg", "index.html"]


@pytest.mark.promise("P-web-off")
def test_nothing_of_it_is_loaded_while_it_is_off() -> None:
    look = (
        "import sys; from goclaw.program.cli.daemon import import_serving; import_serving();"
        "import goclaw.gateway.servers.http, goclaw.gateway.servers.api.routes;"
        "print([n for n in sys.modules if 'servers.web' in n or n.split('.')[0] in ('nh3', 'pygments')])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.promise("P-web-off")
def test_what_renders_is_not_loaded_before_a_page_is_open() -> None:
    look = (
        "import sys; from goclaw.program.cli.daemon import import_serving; import_serving();"
        "import goclaw.gateway.servers.web.routes;"
        "print([n for n in sys.modules if n.split('.')[0] in ('nh3', 'pygments')])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
