"""Text from a model as bytes for the system."""

from goclaw.errors import InvalidInput


def encoded(text: str, field: str) -> bytes:
    """UTF-8.

    Raises:
        InvalidInput: half a surrogate pair, which JSON can carry and no file can.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        found = ord(text[error.start])
        raise InvalidInput(f'field "{field}": expected Unicode text, got half a character (U+{found:04X})') from None
