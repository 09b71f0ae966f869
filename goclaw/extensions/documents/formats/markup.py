"""XML in zip files, as events: no entity is declared, nothing outside is opened, sizes are bounded as it unpacks."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import BinaryIO
from xml.parsers import expat

from goclaw.extensions.documents.formats.answer import Refused

MAX_UNPACKED = 400 << 20
"""Bytes of one file in a zip that are unpacked: as much as is parsed in the time of a call."""
_CHUNK = 1 << 17
_DEEPEST = 500
"""Elements within each other."""

Event = tuple[str, str, Mapping[str, str]]
"""`start`, name and attributes; `end` and name; `text` and the text. Names are without their namespace."""
NOTHING: Mapping[str, str] = {}


class Package:
    """A zip file of XML files."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
            raise Refused("is damaged: its list of files cannot be read") from None
        self.names = frozenset(self.zip.namelist())

    def chunks(self, name: str, most: int = MAX_UNPACKED) -> Iterator[bytes]:
        """Yield the bytes of a file in it. Raises Refused: it is absent, damaged, encrypted, or larger than `most`."""
        try:
            info = self.zip.getinfo(name)
            if info.flag_bits & 1:
                raise Refused("is encrypted: it opens with a password only")
            left = most
            with self.zip.open(info) as member:
                while chunk := member.read(_CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise Refused(f"is not opened: {name[:100]} in it unpacks to more than {most >> 20:,} MB")
                    yield chunk
        except KeyError:
            raise Refused(f"is damaged: it has no {name[:100]}") from None
        except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, ValueError, zlib.error, lzma.LZMAError):
            raise Refused(f"is damaged: {name[:100]} in it cannot be unpacked") from None

    def unpack(self, name: str, most: int) -> bytes:
        """Return the bytes of a file in it; raises as `chunks`."""
        return b"".join(self.chunks(name, most))

    def events(self, name: str) -> Iterator[Event]:
        """Parse a file in it; raises Refused as `chunks`, and for XML that is damaged or declares entities."""
        return parse(self.chunks(name), name)

    def relations_of(self, part: str) -> dict[str, tuple[str, str, bool]]:
        """Return the relationships of a part of an Office file: by id the kind, the target, whether that is outside."""
        folder, _, name = part.rpartition("/")
        rels = f"{folder}/_rels/{name}.rels".lstrip("/")
        found: dict[str, tuple[str, str, bool]] = {}
        if rels in self.names:
            for event, tag, given in self.events(rels):
                if event == "start" and tag == "Relationship":
                    kind, target = given.get("Type", "").rpartition("/")[2], given.get("Target", "")
                    outside = given.get("TargetMode") == "External"
                    found[given.get("Id", "")] = kind, target if outside else _join(folder, target), outside
        return found


def parse(chunks: Iterator[bytes], name: str) -> Iterator[Event]:
    """Yield the events of an XML file."""
    found: list[Event] = []
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise Refused(f"is not opened: {name[:100]} in it nests more than {_DEEPEST} elements")
        found.append(("start", tag.rpartition(" ")[2], {key.rpartition(" ")[2]: at for key, at in attributes.items()}))

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        found.append(("end", tag.rpartition(" ")[2], NOTHING))

    def refuse(*_: object) -> None:
        raise Refused(f"is not opened: {name[:100]} in it declares XML entities, which documents do not need")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = lambda text: found.append(("text", text, NOTHING))
    parser.EntityDeclHandler = refuse
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
            yield from found
            found.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise Refused(f"is damaged: the XML of {name[:100]} in it breaks at line {error.lineno}") from None
    yield from found


def _join(folder: str, target: str) -> str:
    """Return a target relative to a folder of the zip."""
    if target.startswith("/"):
        return target[1:]
    parts = folder.split("/") if folder else []
    for part in target.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
