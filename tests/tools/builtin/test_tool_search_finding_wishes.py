"""Sixty wishes in three languages: the tool that each needs is among the first three that are found."""

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.tools.builtin.tool_search import find_tools
from goclaw.tools.toolkit.base import Tool

TOOLS = [load(path, Tool).spec for name, path in catalog.TOOLS.items() if not name.startswith("tool_")]
FOUND_OF_SIXTY = 57
WISHES = {
    "find all python files below src": "glob",
    "which files are in this folder": "list",
    "change several places of a file at once": "multi_edit",
    "replace a cell of a Jupyter notebook": "notebook_edit",
    "look for a regular expression in the source code": "search",
    "start a server that goes on in the background": "bg_exec",
    "what did the background task print": "task_output",
    "type a line into the running program": "task_input",
    "kill the background task": "task_stop",
    "which background tasks are running": "task_list",
    "run a command on another machine over ssh": "ssh_exec",
    "look something up on the internet": "web_search",
    "what did we say about the boat last month": "transcript_search",
    "have somebody else do a part of the work": "agent",
    "how many tokens have I used today": "command",
    "change a setting of the gateway": "config",
    "keep a list of what is to be done": "todo_write",
    "forget the value that is kept under a key": "memory_delete",
    "write my plan down for later conversations": "memento",
    "react to a message with an emoji": "message",
    "Suche Dateien nach einem Muster im Namen": "glob",
    "Zeig mir, was in dem Ordner liegt": "list",
    "Mehrere Stellen einer Datei auf einmal bearbeiten": "multi_edit",
    "Eine Zelle im Notebook ersetzen": "notebook_edit",
    "Durchsuche den Text aller Dateien": "search",
    "Starte ein Programm im Hintergrund": "bg_exec",
    "Ausgabe der Aufgabe im Hintergrund lesen": "task_output",
    "Eine Eingabe an das laufende Programm schicken": "task_input",
    "Beende die Aufgabe im Hintergrund": "task_stop",
    "Welche Aufgaben laufen im Hintergrund?": "task_list",
    "Befehl auf einem entfernten Rechner ausführen": "ssh_exec",
    "Such im Netz nach Neuigkeiten": "web_search",
    "Öffne diese Webseite und lies den Text": "web_fetch",
    "Was haben wir letzte Woche gesagt?": "transcript_search",
    "Einen Helfer mit der Arbeit beauftragen": "agent",
    "Ändere eine Einstellung": "config",
    "Lösche den gemerkten Wert": "memory_delete",
    "Schick eine Nachricht in einen anderen Chat": "message",
    "Frag den Benutzer, was er will": "ask_user",
    "Welche Notizen gibt es im Gedächtnis?": "memory_list",
    "buscar archivos por un patrón del nombre": "glob",
    "muéstrame qué hay en la carpeta": "list",
    "editar varios sitios de un archivo a la vez": "multi_edit",
    "reemplazar una celda del cuaderno": "notebook_edit",
    "buscar un texto en los ficheros": "search",
    "ejecutar un programa en segundo plano": "bg_exec",
    "leer la salida de la tarea": "task_output",
    "enviar una entrada al programa en ejecución": "task_input",
    "detener la tarea": "task_stop",
    "lista de tareas en ejecución": "task_list",
    "ejecutar un comando en un servidor remoto": "ssh_exec",
    "buscar en internet": "web_search",
    "descargar una página web": "web_fetch",
    "qué dijimos en la conversación anterior": "transcript_search",
    "delegar un trabajo en otro agente": "agent",
    "cambiar un ajuste de la configuración": "config",
    "borrar un valor guardado": "memory_delete",
    "enviar un mensaje a otro chat": "message",
    "guardar un valor bajo una clave": "memory_write",
    "preguntar al usuario": "ask_user",
}
"""What is wanted, and the tool for it."""


def test_the_tool_that_a_wish_needs_is_among_the_first_three() -> None:
    assert len(WISHES) == 60
    missed = {
        wish: (name, first)
        for wish, name in WISHES.items()
        if name not in (first := [spec.name for spec in find_tools(wish, TOOLS)[:3]])
    }
    assert len(WISHES) - len(missed) >= FOUND_OF_SIXTY, missed
