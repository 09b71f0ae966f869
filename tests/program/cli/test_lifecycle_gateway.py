"""What the daemon's process imports and builds before it has anything to do: time and memory of every start."""

import hashlib
import subprocess
import sys
from pathlib import Path

from goclaw.gateway.servers.api.table import document
from tests.common.core.test_extras import CERTIFICATE

PROGRAM = """
import sys

import goclaw.program.cli.lifecycle
import goclaw.program.cli.serving
from goclaw.common.config.load import load_config
from goclaw.common.config.section import Section

def below(kind):
    for each in kind.__subclasses__():
        yield each
        yield from below(each)

load_config()
print(*(name for name in sys.argv[1:] if name in sys.modules))
print(*(each.__name__ for each in below(Section) if each.__pydantic_complete__))
"""
LARGE = ("httpx", "jinja2", "mcp", "pydantic_ai", "telegram", "textual", "tree_sitter")
WANTED_BY_FEW = (
    "goclaw.extensions.registries.base",
    "goclaw.gateway.servers.mcp.tools",
    "goclaw.extensions.registries.server",
    "goclaw.extensions.registries.finder",
    "goclaw.tools.builtin",
)


def test_a_start_imports_no_large_library_and_neither_part_nor_section_that_is_not_configured(tmp_path: Path) -> None:
    """A process of its own, half a second: here everything is imported already."""
    command = [sys.executable, "-c", PROGRAM, *LARGE, *WANTED_BY_FEW]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["", "LayeredSettings"], "")


EVERYTHING = """
import gc
import sys
from collections import Counter

from goclaw.channels.base import ChannelPorts
from goclaw.channels.telegram import CHANNEL
from goclaw.program.cli.daemon import import_serving
from goclaw.common.config.load import load_config

gc.disable()
import_serving()
classes = Counter(f"{each.__module__}.{each.__qualname__}" for each in object.__subclasses__())
ours = ("goclaw.program.app", "goclaw.durable.engine")
print(*(name for name, times in classes.items() if times > 1 and name.startswith(ours)))
CHANNEL.open(load_config().config, None)
print(*(name for name in sys.argv[1:] if name in sys.modules))
import rich, cryptography, sqlalchemy, structlog
bot = sys.modules["telegram"].Bot
print(structlog.get_logger.__doc__, sqlalchemy.select.__doc__, sqlalchemy.Table.__doc__, bot.__doc__)
from telegram.request._httpxrequest import HTTPXRequest
print(HTTPXRequest.__mro__[1].__name__)
"""


def test_the_daemon_imports_libraries_without_extras_that_it_never_uses(tmp_path: Path) -> None:
    command = [sys.executable, "-c", EVERYTHING, "telegram", "rich", "pygments", "httpx", "cryptography"]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["", "telegram", "None None None None", "BaseRequest"], "")


READ_LATER = """
import hashlib

from goclaw.program.cli.daemon import import_serving

import_serving()
import goclaw.conversation.turns.service
from goclaw.common.core.catalog import TOOLS
from goclaw.common.core.plugins import load
from goclaw.gateway.servers.api.table import document
from goclaw.toolkit.base import Tool

print(goclaw.conversation.turns.service.__doc__, goclaw.conversation.turns.service.Sessions.run.__doc__)
print([name for name, path in TOOLS.items() if not load(path, Tool).spec.description])
print(hashlib.sha256(document()).hexdigest())
"""


def test_the_daemon_has_no_docstrings_of_its_own_but_those_that_models_and_the_document_of_the_api_show(
    tmp_path: Path,
) -> None:
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", READ_LATER]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines()[:2], done.stderr) == (["None None", "[]"], "")
    assert done.stdout.splitlines()[2] == hashlib.sha256(document()).hexdigest()


STARTED = """
import gc, ssl

from goclaw.program.cli.base import Options
from goclaw.program.cli.gateway import run_gateway
from goclaw.errors import StateError

try:
    run_gateway(Options())
except StateError as error:
    print("state" in str(error))
from goclaw.common.core.events import SessionInfo
print(SessionInfo.__doc__.split()[0], run_gateway.__doc__ is None)
import aiohttp, asyncio, attr, pydantic, pydantic_core
known = (aiohttp.ClientSession.get, asyncio.Queue.put, attr.define, pydantic.BaseModel.copy, pydantic_core.ErrorDetails)
print(*(each.__doc__ for each in known))
print(*(each.cert_store_stats()["x509"] for each in gc.get_objects() if type(each) is ssl.SSLContext))
"""


def test_the_daemon_has_no_manuals_and_each_certificate_once(tmp_path: Path) -> None:
    (tmp_path / "system.pem").write_text(CERTIFICATE)
    (tmp_path / ".goclaw").write_text("no folder: the daemon ends before it begins")
    environment = {
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "SSL_CERT_FILE": str(tmp_path / "system.pem"),
    }
    command = [sys.executable, "-c", STARTED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["True", "An False", "None None None None None", "1 0"], "")


BEFORE_THE_FIRST_POLL = """
import sys

import goclaw.program.cli.daemon
import goclaw.program.cli.lifecycle
import goclaw.program.cli.loop
from goclaw.channels.open import start_channels
from goclaw.channels.telegram import first_poll

print(*(name for name in sys.argv[1:] if name in sys.modules))
"""
AFTERWARDS = (
    "goclaw.program.app",
    "goclaw.memory",
    "goclaw.durable.store",
    "aiohttp.web",
    "rich",
    "sqlalchemy",
    "structlog",
    "telegram",
)


def test_nothing_is_imported_before_the_first_poll_that_it_does_not_need(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BEFORE_THE_FIRST_POLL, *LARGE, *WANTED_BY_FEW, *AFTERWARDS]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == ([""], "")
