"""The worker's life. In: a frame that says what to be, then requests. Out: a frame when it is ready, then answers.

It ends when its input ends; what its libraries raise ends it as well, and stands in the last line of its errors.
"""

import os
import sys
from io import FileIO
from pathlib import Path
from threading import Thread
from typing import BinaryIO

from goclaw.embedders.worker import limits
from goclaw.embedders.worker.frames import Head, frame, read_frame
from goclaw.embedders.worker.model import Model, as_bytes
from goclaw.embedders.worker.waiting import EmbeddingRequest, Waiting


def main() -> None:
    """Read the setup frame and serve requests."""
    # Unbuffered: Python cannot end, not even to say why, while a thread waits within a buffer.
    source, sink = FileIO(0, closefd=False), _own_output()
    first = read_frame(source)
    if first is None:
        return
    setup, _ = first
    limits.lower(setup["megabytes"])
    waiting = Waiting()
    Thread(target=_listen, args=(source, waiting), daemon=True).start()
    if setup["task"] == "export":
        _say(sink, _export(setup))
    else:
        _serve(setup, waiting, sink)


def _own_output() -> BinaryIO:
    """Return our end of the pipe, under another number: libraries print to standard error."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return sink


def _listen(source: FileIO, waiting: Waiting) -> None:
    while (heard := read_frame(source)) is not None:
        head, _ = heard
        waiting.put(EmbeddingRequest(head["number"], head["texts"], head["query"]))
    os._exit(0)  # the parent is gone; the other thread may be in the middle of a long calculation


def _export(setup: Head) -> Head:
    from goclaw.embedders.worker.exporting import NotExported, export

    try:
        return {"closeness": export(Path(setup["model"]), Path(setup["export"]), setup["prefixes"])}
    except NotExported as error:
        return {"refused": str(error)}


def _serve(setup: Head, waiting: Waiting, sink: BinaryIO) -> None:
    if setup["export"]:
        from goclaw.embedders.worker.onnx_model import OnnxModel

        model: Model = OnnxModel(Path(setup["export"]))
    else:
        from goclaw.embedders.worker.torch_model import TorchModel

        model = TorchModel(setup["model"], setup["prefixes"])
    _say(sink, {"engine": model.engine, "used": limits.used()})
    while True:
        request = waiting.first()
        _go_on(model, request)
        if not request.left:
            waiting.remove(request)
            body = b"".join(request.vectors[place] for place in range(len(request.texts)))
            _say(sink, {"number": request.number, "used": limits.used()}, body)


def _go_on(model: Model, request: EmbeddingRequest) -> None:
    """Embed the next portion."""
    places = request.take(model.portion([request.texts[place] for place in request.left]))
    vectors = as_bytes(model.embed([request.texts[place] for place in places], request.query))
    request.vectors.update(zip(places, vectors, strict=True))


def _say(sink: BinaryIO, head: Head, body: bytes = b"") -> None:
    sink.write(frame(head, body))
    sink.flush()


if __name__ == "__main__":
    main()
