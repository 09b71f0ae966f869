"""From `media.transcriber` to a transcriber. A provider that the catalogue does not name speaks OpenAI's protocol."""

from goclaw import catalog
from goclaw.config.schema import Config, ProviderSettings
from goclaw.plugins import load, third_party
from goclaw.transcribers.base import Transcriber, TranscriberPart, TranscriberPorts


def open_transcriber(config: Config, ports: TranscriberPorts) -> Transcriber | None:
    """Return the configured transcriber; None when none is wanted. Nothing is sent yet.

    Raises:
        ConfigError: it needs a key or an address that it does not have.
    """
    spec = config.media.transcriber
    if spec is None:
        return None
    name = spec.partition(":")[0]
    paths = {**third_party("transcribers"), **catalog.TRANSCRIBERS}
    part = load(paths.get(name, catalog.TRANSCRIBERS["openai"]), TranscriberPart)
    return part.open(spec, config.providers.get(name, ProviderSettings()), ports)
