"""The worker's life. In: a frame that says what to be, then requests. Out: a frame when it is ready, then answers.

It ends when its input ends, and together with GoClaw; what its libraries raise ends it as well, and stands in the last
line of its errors. It runs with low priority and bounded memory.
"""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from io import FileIO
from pathlib import Path
from threading import Thread
from typing import BinaryIO

from goclaw.extensions.local_embedders.worker.model import Model, as_bytes
from goclaw.extensions.local_embedders.worker.protocol import EmbeddingRequest, Head, Waiting, frame, read_frame

NICENESS = 10
OOM_SCORE = 800
"""Of 1,000: the kernel ends this process before others when memory runs out."""
HARD_FACTOR, HARD_EXTRA = 2, 1024
"""Allocation limit as a factor of the memory limit plus megabytes: libraries allot more than they use."""
_PR_SET_PDEATHSIG = 1
"""prctl(2)."""


def limit_resources(megabytes: int) -> None:
    """Be nice, die with the parent, leave no core, and fail rather than eat the machine's memory."""
    os.nice(NICENESS)
    if sys.platform == "linux":
        # The pipe's end shows the same, but not while a library that is imported holds the interpreter.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
        most = (HARD_FACTOR * megabytes + HARD_EXTRA) << 20
        with suppress(ValueError, OSError):  # a lower one is in force already
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def used_megabytes() -> int:
    """Return the megabytes of memory that this process has now; where that is unknown, its maximum so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak >> (20 if sys.platform == "darwin" else 10)
    return pages * resource.getpagesize() >> 20


def main() -> None:
    """Read the setup frame and serve requests."""
    # Unbuffered: Python cannot end, not even to say why, while a thread waits within a buffer.
    source, sink = FileIO(0, closefd=False), _own_output()
    first = read_frame(source)
    if first is None:
        return
    setup, _ = first
    limit_resources(setup["megabytes"])
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
    from goclaw.extensions.local_embedders.worker.exporting import NotExported, export

    try:
        return {"closeness": export(Path(setup["model"]), Path(setup["export"]), setup["prefixes"])}
    except NotExported as error:
        return {"refused": str(error)}


def _serve(setup: Head, waiting: Waiting, sink: BinaryIO) -> None:
    if setup["export"]:
        from goclaw.extensions.local_embedders.worker.onnx_model import OnnxModel

        model: Model = OnnxModel(Path(setup["export"]))
    else:
        from goclaw.extensions.local_embedders.worker.torch_model import TorchModel

        model = TorchModel(setup["model"], setup["prefixes"])
    _say(sink, {"engine": model.engine, "used": used_megabytes()})
    while True:
        request = waiting.first()
        places = request.next_places(model.portion([request.texts[place] for place in request.left]))
        vectors = as_bytes(model.embed([request.texts[place] for place in places], request.query))
        request.vectors.update(zip(places, vectors, strict=True))
        if not request.left:
            waiting.remove(request)
            body = b"".join(request.vectors[place] for place in range(len(request.texts)))
            _say(sink, {"number": request.number, "used": used_megabytes()}, body)


def _say(sink: BinaryIO, head: Head, body: bytes = b"") -> None:
    sink.write(frame(head, body))
    sink.flush()


if __name__ == "__main__":
    main()
