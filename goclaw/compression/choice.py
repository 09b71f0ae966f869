"""The choice of compressed outputs: by the setting of the model, else of `exec`; else for local models."""

from goclaw.config.schema import Config, ModelOptions
from goclaw.llm.open import is_local


def is_wanted(spec: str, config: Config) -> bool:
    """Whether the model `provider:name` gets it (goa, "Output Compression": three levels of precedence)."""
    of_model = config.models.options.get(spec, ModelOptions()).compress_output
    of_all = config.tools.exec.compress_output
    return next((said for said in (of_model, of_all) if said is not None), is_local(spec, config))
