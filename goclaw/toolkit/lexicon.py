"""Meanings of German, Spanish and a few English words in the words of tools' descriptions, for `finding`.

People's wishes reach `tool_search` in their own language at times, and tools are described in English. Known are the
words in which one wishes for what tools do, by their stems; other words are looked for as they are.
"""

from functools import lru_cache

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
        word: as `finding.words` has it.
    """
    found = [english for stem, known in _ENGLISH.items() if _holds(word, stem) for english in known]
    return tuple(dict.fromkeys((word, *found)))


def _holds(word: str, stem: str) -> bool:
    if len(stem) >= _LONG:
        return stem in word
    return word.startswith(stem) and len(word) <= len(stem) + _ENDING
