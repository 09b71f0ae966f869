"""The model that answers: chosen, given its key, and asked one word over GoClaw's own wires."""

from collections.abc import Iterator, Sequence

from pydantic import SecretStr

from goclaw.cli.setup_steps.answers import ModelChoice, Scene, ask_secret
from goclaw.config.schema import Config, ProviderSettings
from goclaw.doctor.model import prepared
from goclaw.doctor.tools import open_tools
from goclaw.errors import GoclawError, ModelError, ModelErrorKind
from goclaw.llm.base import ModelPorts
from goclaw.llm.found import BEST, FoundModels, ModelCandidate, key_known, key_variable, look_around
from goclaw.llm.open import ollama_finder, open_model
from goclaw.llm.ping import ping
from goclaw.net.ollama import ollama_url

TRY_SECONDS = 120.0
"""Time limit for a first answer: a local model has to be loaded into memory."""
MAX_OUTPUT = 1_024
"""Tokens. One word takes one, but some models think before it."""


async def choose_model(scene: Scene, spec: str = "", key: str = "") -> ModelChoice | None:
    """Return the model that shall answer, tried out; None when the person skipped it.

    With a `spec` nothing is asked, except for a key that is neither given nor known.

    Raises:
        GoclawError: the model of `spec` does not answer; the message says why.
    """
    if scene.dialogue.silent and not spec:
        return None
    scene.dialogue.say("\n1. The model")
    if spec:
        given = ModelChoice(spec, key or await _ask_key(scene, spec, only_if_unknown=True))
        await _try(scene, given)
        return given
    found = await _look_around(scene)
    now = scene.loaded.config.models.agent
    skipping = f"keep {now[0]}" if now else "GoClaw chooses" if found.candidates else "none for now"
    numbered = {str(number): each.spec for number, each in enumerate(menu_of(found), 1)}
    while typed := await scene.dialogue.ask(f"   Number or `provider:name` [Enter: {skipping}]:"):
        try:
            choice = await _settled(scene, numbered.get(typed, typed))
            if choice:
                return choice
        except GoclawError as error:
            scene.dialogue.say(f"   ✗ {error}")
    return None


async def _settled(scene: Scene, spec: str) -> ModelChoice | None:
    """Return `spec` with a key that works, asked for anew as long as it is wrong; None when the person gives up."""
    choice = ModelChoice(spec, await _ask_key(scene, spec))
    while True:
        try:
            await _try(scene, choice)
        except ModelError as error:
            if error.kind is not ModelErrorKind.AUTH or key_variable(choice.provider) is None:
                raise
            scene.dialogue.say(f"   ✗ {error}")
            key = await ask_secret(scene.dialogue, "   Another key (hidden) [Enter: another model]:")
            if not key:
                return None
            choice = ModelChoice(spec, key)
        else:
            return choice


async def _ask_key(scene: Scene, spec: str, *, only_if_unknown: bool = False) -> str:
    """Return a key for the provider of `spec`; empty where none is needed, or the known one shall do."""
    provider = spec.partition(":")[0]
    variable = key_variable(provider) if ":" in spec else None
    if variable is None:
        return ""
    known = key_known(scene.loaded.config, provider)
    if known and only_if_unknown:
        return ""
    origin = scene.loaded.origin(("providers", provider, "api_key"))
    place = f"env {variable}" if origin == "default" else origin
    skipping = f"the one in {place}" if known else "none"
    return await ask_secret(scene.dialogue, f"   Key for {provider} (hidden) [Enter: {skipping}]:")


async def _look_around(scene: Scene) -> FoundModels:
    """Find models that could answer, and print them."""
    config = scene.loaded.config
    found = await look_around(config, ollama_finder(config, _ports(scene)))
    for number, each in enumerate(menu_of(found), 1):
        scene.dialogue.say(f"   {number}  {each.spec} ({each.reason})")
    for line in hints(found, ollama_url(config.providers.get("ollama", ProviderSettings()))):
        scene.dialogue.say(f"   {line}")
    return found


def menu_of(found: FoundModels) -> Sequence[ModelCandidate]:
    """Return the models found, the best first, then those that only lack a key."""
    known = {each.spec for each in found.candidates}
    return [*found.candidates, *(ModelCandidate(spec, "needs a key") for spec in BEST.values() if spec not in known)]


def hints(found: FoundModels, ollama: str) -> Iterator[str]:
    """Yield lines on other models that were found or could be. `ollama`: the address at which one was looked for."""
    for provider in found.keyed:
        yield f"There is a key for {provider}: `{provider}:<model>` works, too."
    if found.ollama and not found.ollama.with_tools():
        yield f"Ollama answers at {found.ollama.base_url}, but has no model for tools: `ollama pull qwen3`."
    if found.ollama is None:
        yield f"No Ollama answers at {ollama}. For a model without a key:"
        yield "install it (https://ollama.com), then `ollama pull qwen3`."


async def find_ollama(scene: Scene) -> str:
    """Return Ollama's address if GoClaw does not look there by itself: a service does not have `OLLAMA_HOST`."""
    config = scene.loaded.config
    url = ollama_url(config.providers.get("ollama", ProviderSettings()))
    if url == ollama_url(ProviderSettings(), {}):
        return ""
    found = await ollama_finder(config, _ports(scene))()
    return found.base_url if found else ""


async def _try(scene: Scene, choice: ModelChoice) -> None:
    """Ask the model for one word and print the answer. Raises GoclawError when none comes."""
    scene.dialogue.say(f"   Asking {choice.spec} …")
    config = with_key(scene.loaded.config, choice)
    model = open_model(choice.spec, config, _ports(scene))
    found = await prepared(config, model, (await open_tools(scene.loaded)).usable)
    said = await ping(model, max_output=MAX_OUTPUT, seconds=TRY_SECONDS)
    scene.dialogue.say(f"   ✓ {choice.spec} answers{f': {said}' if said else ''}")
    if not found.fits:
        scene.dialogue.say("\n".join(f"   {line}" for line in f"! {found.explained()}".splitlines()))


def with_key(config: Config, choice: ModelChoice) -> Config:
    """Return the configuration as it will be with the choice's key."""
    if not choice.key:
        return config
    settings = config.providers.get(choice.provider, ProviderSettings())
    settings = settings.model_copy(update={"api_key": SecretStr(choice.key)})
    return config.model_copy(update={"providers": {**config.providers, choice.provider: settings}})


def _ports(scene: Scene) -> ModelPorts:
    return ModelPorts(scene.http, _no_image, scene.clock)


async def _no_image(key: str) -> bytes:
    raise AssertionError(f"no picture is asked for here: {key}")
