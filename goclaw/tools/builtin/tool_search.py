"""Search for tools that are not in the request (`tool_search`), and run them (`tool_call`).

The search uses no model. Each word of the query counts for a tool by where it stands (its name, other names of it,
its description, its arguments and examples) and by how few tools have it. A word of German or Spanish counts as its
English meanings, as far as its stem is known: people's wishes arrive in their own language, and tools are described
in English.

`registry.unwrap` replaces a call of `tool_call` by the call that it names, before anything is decided; the tool
itself is reached only by a call that names no tool the person may use.
"""

import asyncio
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.core.catalog import ALIASES
from goclaw.common.specs import TOOL_CALL, TOOL_SEARCH, Example, SideEffect, ToolSpec
from goclaw.errors import UnknownTool
from goclaw.llm.tool_calls import trimmed_schema
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

TOLD, NAMED = 3, 10
"""How many tools are told with their arguments at most, and how many at least by name."""
ROOM = 2_500
"""Maximum characters about further tools, after the first one: a small model's window has little room."""

_EXAMPLE = {"name": "glob", "arguments": {"pattern": "*.md"}}

_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"(?<=[a-z]{3})(?<![sui])s$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_IN_NAME, _IN_ALIAS, _IN_SHORT, _IN_TEXT, _IN_ARGUMENT = 6.0, 4.0, 3.0, 1.0, 0.5
_LEAST_SHARED = 4
"""Characters that two forms of a word have in common."""
_STOP_WORDS = re.compile(
    "a|an|and|any|are|at|be|by|can|do|for|from|how|i|in|is|it|me|my|of|on|or|please|some|that|the|this|to|tool|want|"
    "what|which|with|you"
)
"""Words that say nothing of a tool."""

_LONG = 5
"""Characters from which on a stem counts anywhere in a word, as in compounds (`textdatei`)."""
_ENDING = 2
"""Characters that may follow a shorter one: `frag` is in `fragen`, and not in `fragment`."""
_STEMS = """
agent: helfer delega ayudante
ask: frag pregunt
answer: antwort respuesta
background: hintergrund fondo segundo plano
cell: zelle celda
change: anpass cambi modific
chat: unterhalt conversaci charla
command: befehl kommando comando orden
content: inhalt contenido
create: anleg erstell crea
decide: entscheid decid
delete: losch entfern vergiss vergess borra elimin olvid
download: herunterlad descarg
edit: bearbeit edita
emoji: reaktion reaccion
end: beend termin
execute: ausfuhr ejecut
fetch: abruf
file: datei archivo fichero
find: finde encontr
folder: ordner verzeichnis carpeta directorio
host: rechner maquina
input: type eingabe tastatur entrada
issue: problem
keep: merke behalt aufbewahr guarda conserva
key: schlussel clave
kill: abbrech abbruch mata aborta
line: zeile linea
list: auflist liste lista
memory: gedachtnis erinner memoria
message: nachricht mensaje
name: name nombre
news: neuigkeit nachrichten noticia
note: notiz nota
notebook: notizbuch cuaderno
open: offne abre
output: ausgabe salida
page: seite pagina
pattern: muster patron
person: person
plan: plan
program: programm programa
question: frage pregunta
read: lies lesen lee leer
remember: merk erinner recuerd recorda
remote: entfernt fern remot
replace: ersetz reemplaz sustitu
result: ergebnis resultado
run: lauf starte ejecuta corre
running: laufend lauft ausfuhrend ejecucion
said: say told gesagt gesprochen besprochen dijo dijimo dicho hablamo
search: such busca look
send: schick sende envia manda
server: server servidor
setting: einstellung ajuste configuraci
shell: shell consola
show: zeig muestra ensena
several: mehrere varios varias
status: stand zustand estado
stop: stopp halte deten
task: aufgabe tarea
text: text texto
thoughts: gedanken pensamientos
usage: used token cost verbrauch kosten consumo gasto
value: wert valor
web: web netz internet online
website: webseite sitio
word: wort palabra
work: arbeit trabajo
write: schreib escrib
"""


class ToolsFound(Result):
    """Tools that fit a query."""

    names: Annotated[tuple[str, ...], Field(description="Of the tools, the best first.")]
    told: Annotated[str, Field(description="What the model reads of them.")]

    def text(self) -> str:
        return self.told


@tool(
    side_effect=SideEffect.NONE,
    title="Search for tools",
    tags=("index",),
    access=lambda arguments, ctx: ResourceUse(),
    call_hint="Looking for a tool: {{ query | truncate(80) }}",
    result_hint="{{ names | count }} tool(s) for {{ args.query | truncate(80) | quote }}",
    examples=(Example("A tool that finds files", {"query": "find files by name"}, "glob: Find files"),),
)
async def tool_search(
    ctx: ToolContext,
    query: Annotated[str, Field(min_length=1, max_length=500, description="What it should do, or its name.")],
) -> ToolsFound:
    """Find tools that are not listed here, with their arguments. Run them with tool_call.

    Also tells the whole description of a listed one.
    """
    usable = [spec for spec in ctx.usable() if spec.name not in (TOOL_SEARCH, TOOL_CALL)]
    # In a thread: with some hundred tools of MCP servers it takes two tenths of a second.
    found = (await asyncio.to_thread(find_tools, query, usable))[:NAMED]
    names = tuple(spec.name for spec in found)
    if not found:
        others = [spec.name for spec in usable]
        instead = "exec may do it by a command; " if "exec" in others else ""
        return ToolsFound(names=names, told=f"no tool fits; {instead}there are: {', '.join(others)}")
    told = []
    for spec in found[:TOLD]:
        schema = json.dumps(trimmed_schema(spec.schema), ensure_ascii=False, separators=(",", ":"))
        told.append(f"{spec.name}: {spec.description}\narguments: {schema}")
    while len(told) > 1 and sum(map(len, told)) > ROOM:
        told.pop()
    more = [f"also: {', '.join(names[len(told) :])}"] if names[len(told) :] else []
    return ToolsFound(names=names, told="\n\n".join([*told, *more]))


@tool(
    side_effect=SideEffect.NONE,
    title="Call a tool",
    tags=("index",),
    access=lambda arguments, ctx: ResourceUse(),
    call_hint="Calling {{ name | truncate(64) }}",
    result_hint="{{ args.name | truncate(40) }}: {{ value | truncate(90) }}",
    examples=(Example("Notes, with a tool that is only found", _EXAMPLE, "tea.md", {"tea.md": "Green tea.\n"}),),
)
async def tool_call(
    ctx: ToolContext,
    name: Annotated[str, Field(min_length=1, description="Its name.")],
    arguments: Annotated[dict[str, Any] | None, Field(description="As tool_search told them.")] = None,
) -> str:
    """Run a tool that is not listed here."""
    raise UnknownTool(name)


def find_tools(query: str, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the tools that fit a query, the best first; none where no word of it fits one."""
    wanted = [word for word in words(query) if not _STOP_WORDS.fullmatch(word)]
    weights = [_weights(spec) for spec in tools]
    scores = [0.0] * len(tools)
    for word in dict.fromkeys(wanted):
        found = [max(_weight(meant, each) for meant in meanings(word)) for each in weights]
        having = sum(1 for weight in found if weight)
        rarity = math.log(1 + len(tools) / having) if having else 0.0
        scores = [score + rarity * weight for score, weight in zip(scores, found, strict=True)]
    whole = query.strip()
    for at, spec in enumerate(tools):
        if spec.name == whole or ALIASES.get(whole) == spec.name:
            scores[at] = math.inf
    ranked = sorted(range(len(tools)), key=lambda at: -scores[at])
    return [tools[at] for at in ranked if scores[at] > 0]


def words(text: str) -> list[str]:
    """Return the words of a text: lower case, singular, without diacritics; `multi_edit` and `MultiEdit` are two."""
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", text))
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return [_PLURAL.sub("", word.casefold()) for word in _WORD.findall(plain)]


def _weights(spec: ToolSpec) -> Mapping[str, float]:
    """Return the weight of each word for the tool: the largest of the places where it stands."""
    weights: Counter[str] = Counter()
    for text, weight in _weighted_texts(spec):
        for word in words(text):
            weights[word] = max(weights[word], weight)  # type: ignore[assignment]  # a Counter of numbers
    return weights


def _weighted_texts(spec: ToolSpec) -> Iterator[tuple[str, float]]:
    yield spec.name, _IN_NAME
    yield spec.title, _IN_ALIAS
    for alias, name in ALIASES.items():
        if name == spec.name:
            yield alias, _IN_ALIAS
    yield spec.short, _IN_SHORT
    yield spec.description, _IN_TEXT
    for tag in spec.tags:
        yield tag, _IN_TEXT
    for example in spec.examples:
        yield example.about, _IN_TEXT
    for name, schema in spec.schema.get("properties", {}).items():
        yield name, _IN_ARGUMENT
        if isinstance(schema, Mapping):
            yield str(schema.get("description", "")), _IN_ARGUMENT


def _weight(word: str, weights: Mapping[str, float]) -> float:
    """Return the word's weight; for another form of it (searching, searches) three quarters."""
    exact = weights.get(word, 0.0)
    if len(word) < _LEAST_SHARED:
        return exact
    others = (weight for other, weight in weights.items() if _akin(word, other))
    return max(exact, 0.75 * max(others, default=0.0))


def _akin(word: str, other: str) -> bool:
    """Whether one begins as the other, or both do but for an ending."""
    shared = 0
    for mine, theirs in zip(word, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared >= max(_LEAST_SHARED, max(len(word), len(other)) - 3)


def _by_stem() -> dict[str, tuple[str, ...]]:
    """Return the English words by the stem that means them."""
    found: dict[str, tuple[str, ...]] = {}
    for row in _STEMS.strip().splitlines():
        english, _, stems = row.partition(": ")
        for stem in stems.split():
            found[stem] = (*found.get(stem, ()), english)
    return found


_ENGLISH = _by_stem()


@lru_cache(maxsize=1_000)
def meanings(word: str) -> tuple[str, ...]:
    """Return the word, and its possible meanings in English.

    Args:
        word: as `words` has it.
    """
    found = [english for stem, known in _ENGLISH.items() if _holds(word, stem) for english in known]
    return tuple(dict.fromkeys((word, *found)))


def _holds(word: str, stem: str) -> bool:
    if len(stem) >= _LONG:
        return stem in word
    return word.startswith(stem) and len(word) <= len(stem) + _ENDING
