"""Log records that a test waits for, also while it blocks the event loop on purpose."""

import logging
import threading

PATIENCE = 20.0


class Records(logging.Handler):
    """Keeps records, and tells other threads of each."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.came = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.came:
            self.records.append(record)
            self.came.notify_all()

    def wait_for(self, text: str) -> logging.LogRecord:
        """The first record that says `text`. Blocks whoever asks."""
        with self.came:
            assert self.came.wait_for(lambda: self.found(text), PATIENCE), f"nobody logged {text!r}"
            return self.found(text)[0]

    def found(self, text: str) -> list[logging.LogRecord]:
        return [record for record in self.records if text in record.getMessage()]
