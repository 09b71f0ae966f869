"""TLS in front of a Postgres that was built without it, as the protocol has it: SSLRequest, one byte, the handshake.

(postgresql.org/docs/current/protocol-flow.html, "SSL Session Encryption".)
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from goclaw.common.core.clock import RealClock

_SSL_REQUEST, _GSS_REQUEST = 80_877_103, 80_877_104


@dataclass
class TlsProxy:
    """The server; it counts what its clients wanted."""

    folder: Path
    target: int
    """The port of the Postgres behind it."""
    offers_tls: bool = True
    port: int = 0
    encrypted: int = 0
    plain: int = 0
    """Clients that went on without TLS."""
    is_away: bool = False
    """Clients are sent away, and counted."""
    sent_away: int = 0
    clients: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def authority(self) -> Path:
        """The certificate that its own is to be verified with."""
        return self.folder / "authority.pem"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until it or the proxy ends."""
        task = asyncio.current_task()
        assert task is not None
        self.clients.add(task)
        try:
            await self._serve(reader, writer)
        finally:
            self.clients.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_away:
            self.sent_away += 1
            return
        first = b""
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                first = await reader.readexactly(8)
                _, code = struct.unpack("!II", first)
                if code not in (_SSL_REQUEST, _GSS_REQUEST):
                    self.plain += 1
                    break
                is_taken = code == _SSL_REQUEST and self.offers_tls
                writer.write(b"S" if is_taken else b"N")
                await writer.drain()
                if is_taken:
                    await writer.start_tls(_context(self.folder))
                    self.encrypted += 1
                    first = b""
                    break
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                back.write(first)
                async with asyncio.TaskGroup() as both:
                    both.create_task(_copy(reader, back))
                    both.create_task(_copy(there, writer))
            finally:
                back.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


def make_certificates(folder: Path, host: str) -> None:
    """An authority that nobody knows, and the certificate that it gave a server with this name."""
    now = datetime.fromtimestamp(RealClock().now(), UTC)

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    def certificate(
        name: str, key: ec.EllipticCurvePrivateKey, of: ec.EllipticCurvePrivateKey, *, is_authority: bool
    ) -> x509.Certificate:
        made = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("an authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return made.sign(of, hashes.SHA256())

    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    for file, made in (
        ("authority.pem", certificate("an authority", authority, authority, is_authority=True)),
        ("server.pem", certificate(host, server, authority, is_authority=False)),
    ):
        (folder / file).write_bytes(made.public_bytes(pem))
    key = server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.key").write_bytes(key)


@asynccontextmanager
async def tls_proxy(folder: Path, target: int, host: str, *, offers_tls: bool = True) -> AsyncIterator[TlsProxy]:
    """A proxy with a certificate for `host`, for as long as the block lasts."""
    make_certificates(folder, host)
    made = TlsProxy(folder, target, offers_tls)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for client in (left := list(made.clients)):
            client.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await server.wait_closed()
