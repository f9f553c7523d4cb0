"""`TargetKind`: all that Proctor knows about a kind of target, in one record.

Each kind's own module exports its record, which is cheap to import: `open_target` imports whatever is needed
to call a model or a program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from proctor.env_substitution import WHOLE_REFERENCE_PATTERN
from proctor.model import Medium
from proctor.parameters import PARAMETERS as FURTHER_PARAMETERS
from proctor.parameters import RESPONSES_PARAMETERS, UNIVERSAL_PARAMETERS

if TYPE_CHECKING:
    from proctor.model import Params, TargetSpec
    from proctor.protocols import Embedder, Target
    from proctor.targets.api.openai.style import ChatStyle
    from proctor.targets.context import TargetContext
    from proctor.targets.entries import TargetEntry

OpenTarget: TypeAlias = "Callable[[TargetSpec, TargetContext], Awaitable[Target]]"
FileFields: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Fields of targets.yaml, each with the JSON Schema of its value."""
_MODEL: Final = {"type": "string", "pattern": r"\S", "description": "The name of the model at its service."}
_URL: Final = {"type": "string", "description": "The URL of the service."}
TIMEOUT_FIELD: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "description": "Timeout of a request, in seconds.",
}
PARAMETERS: Final[FileFields] = {
    "temperature": {"type": "number", "minimum": 0, "maximum": 2, "description": "The temperature."},
    "max_output_tokens": {
        "type": "integer",
        "minimum": 1,
        "description": "Maximum length of an answer, in tokens.",
    },
    "seed": {"type": "integer", "minimum": 0, "description": "The seed."},
    "system_prompt": {"type": "string", "description": "A system prompt before every prompt."},
    "timeout_seconds": TIMEOUT_FIELD,
}
"""The fields of targets.yaml for how a model is called."""
_KEY: Final[FileFields] = {
    "api_key": {
        "type": "string",
        "pattern": WHOLE_REFERENCE_PATTERN,
        "description": "The variable that contains the key, such as ${{ OPENAI_API_KEY }}; never the key "
        "itself.",
    }
}
ADDRESS_FIELDS: Final[FileFields] = {
    "model": _MODEL,
    "deployment": _MODEL,
    "variant": _MODEL,
    "base_url": _URL,
    "endpoint": _URL,
    **_KEY,
    "api_format": {"enum": ["chat"], "description": "The API to call."},
}
"""The fields of targets.yaml that every kind with an address has besides `PARAMETERS`."""
ALL_MEDIA: Final[frozenset[Medium]] = frozenset({"image", "pdf", "audio", "video", "file"})
"""All that a prompt may have besides text."""
MODEL_NAMES: Final = ("model", "deployment", "variant")
"""The names of the field with the model, of which a kind with an address needs one."""


class TargetKind(Struct, frozen=True, kw_only=True):
    """One kind of target: how it is written, where it is, what it costs and what it can do.

    Only `name` and `open_target` are required. A kind with an `address` or an `address_variable` speaks HTTP:
    it is written `NAME:MODEL[@URL]`, and targets.yaml takes its model, address, key and parameters.
    """

    name: str
    open_target: OpenTarget
    """Opens the target of a specification; raises UsageError if it cannot be opened."""
    syntax: str = ""
    """Its form on the command line, such as `cli:COMMAND LINE`; optional parts are in brackets."""
    summary: str = ""
    """Its description in `proctor targets list`."""
    stored_kind: str = ""
    """The `kind` of its specifications if it differs from its name: a service that another kind calls."""
    aliases: Mapping[str, str] = {}
    """Short names on the command line, each with its model."""
    model_pattern: str = ""
    """A regular expression for the beginning of model names that are recognized without a kind."""
    usual_models: str = ""
    """A regular expression for the beginning of further model names, which only suggestions know."""
    check_model: Callable[[str, str], None] | None = None
    """Called with the whole word and the part after the colon; raises UsageError if that is invalid."""

    # --- address and key ---
    address: str | None = None
    """The default base URL."""
    stores_address: bool = True
    """Whether a specification contains the default address."""
    address_variable: str = ""
    """The environment variable that replaces the default address."""
    parse_address: Callable[[str], str] | None = None
    """Turns the value of `address_variable` into a base URL, if it may have another form."""
    address_help: str = ""
    """What to do if there is no address, as the rest of a sentence about the target."""
    key_variables: tuple[str, ...] = ()
    """The environment variables with the key for the origin of `address`; the first one set is used."""
    key_hosts: tuple[str, ...] = ()
    """Suffixes of further host names that get the same key."""

    # --- targets.yaml ---
    provider_names: tuple[str, ...] = ()
    """Other names for it as a `provider`."""
    file_fields: FileFields | None = None
    """Its own fields; None if the file cannot name it. Kinds with an address have more."""
    required_fields: tuple[str, ...] = ()
    """The names of a field that the file must have; of several names, any."""
    read_entry: Callable[[TargetSpec, TargetEntry], TargetSpec] | None = None
    """Fills in a specification from these fields; reports problems to the entry's notes."""
    model_is_file: bool = False
    """Whether the model is a file, relative to the folder of targets.yaml; bundles have only its name."""

    # --- media ---
    media: frozenset[Medium] = ALL_MEDIA
    """The attachments that it takes besides text; a run with others is refused before the first call."""
    media_types: Mapping[Medium, frozenset[str]] = {}
    """The only media types that it takes, for those of its `media` that it does not take in all types."""

    # --- calls ---
    is_in_process: Callable[[TargetSpec], bool] | None = None
    """Returns whether a specification names something that only this process has; None if none does."""
    params: frozenset[str] = frozenset()
    """The parameters of `parameters.PARAMETERS` that it takes; `extra_body` and `headers` go without
    saying for a kind with an address. Any other is an error before the first call."""
    api_format: str = "chat"
    """The interface that it is called over; `with_format` returns the kind for another one."""
    chat_style: ChatStyle | None = None
    """How it writes these parameters, if it is called over chat completions."""
    default_concurrency: int | None = None
    """The number of concurrent calls; None leaves it to the run."""
    max_tokens_for: Callable[[str, Params], int] | None = None
    """Given a model and its parameters, returns the maximum length of an answer, in tokens; None if only the
    service knows it."""
    enforces_timeout: bool = False
    """Whether it enforces the time limit of a call itself."""
    is_cacheable: bool = True
    """Whether answers may be cached; False for files and programs, which may change under the same name."""
    is_instant: bool = False
    """Whether an answer takes no noticeable time."""
    reads_case_ids: bool = False
    """Whether it answers by the id of the case rather than by the prompt."""
    first_case: Callable[[str], str] | None = None
    """Given the part after the colon, returns the id of a case that the target can answer."""
    open_embeddings: Callable[[TargetSpec, TargetContext], Embedder] | None = None
    """Opens an embedding model, if the kind has any."""
    scores_choices: bool = False
    """Whether it reports how likely the choices of a prompt are."""
    choice_interface: Literal["echo", "llamacpp"] = "echo"
    """How a server with OpenAI's interface does it: by echoing a prompt, or by the own one of llama.cpp."""
    choice_models: str = ""
    """A regular expression for the models at its `address` that do; empty for all."""

    batches: str = ""
    """Its `BatchService`, as `module:class`, made of a target's endpoint and context; empty if it has none.
    Its targets are `ApiTarget`s, and a request in a batch costs half."""

    # --- prices ---
    bills_per_prompt: bool = False
    """Whether a call costs what its prompt and answer cost; False for programs that call models."""
    has_list_prices: bool = False
    """Whether models cost their list price at its `address`."""
    tier_shares: Mapping[str, float] = {}
    """What its service tiers cost, as shares of the list price; empty if it has no tiers. The cost of a tier
    that is not in it is unknown."""
    is_free: bool = False
    is_prepaid: bool = False
    """Whether its answers were paid for earlier, so that a budget does not count them."""
    reports_cost: bool = False
    """Whether answers can report their own cost."""

    # --- pages ---
    web_note: str = ""
    """The note beside its name on pages that start runs; empty if the pages do not offer it."""
    is_typed_in_web: bool = False
    """Whether a visitor may type `NAME:MODEL`; the request goes to the default address."""

    def takes(self, medium: Medium, media_type: str) -> bool:
        """Whether an attachment of a medium and media type can be sent to it; a text always can."""
        if medium == "text":
            return True
        types = self.media_types.get(medium)
        return medium in self.media and (types is None or media_type in types)

    @property
    def spec_kind(self) -> str:
        """The `kind` of its specifications."""
        return self.stored_kind or self.name

    @property
    def has_address(self) -> bool:
        """Whether it is called over HTTP at an address that the user may replace."""
        return self.address is not None or bool(self.address_variable)

    @property
    def entry_fields(self) -> FileFields | None:
        """Its fields of targets.yaml besides those of all kinds; None if the file cannot name it."""
        if self.has_address:
            return {**ADDRESS_FIELDS, **PARAMETERS, **self._param_fields, **(self.file_fields or {})}
        return None if self.file_fields is None else {**self.file_fields, **self._param_fields}

    @property
    def all_params(self) -> frozenset[str]:
        """The parameters that it takes, besides temperature, seed and maximum tokens."""
        return self.params | UNIVERSAL_PARAMETERS if self.has_address else self.params

    def with_format(self, api_format: str) -> TargetKind:
        """Returns the kind as it is when it is called over an interface."""
        if api_format == "chat":
            return self
        params, media = self.params & RESPONSES_PARAMETERS, self.media - {"audio", "video"}
        return replace(self, api_format=api_format, params=params, media=media)

    def describe_refusal(self, name: str) -> str:
        """Returns that it does not take a parameter, and what to do, as sentences."""
        if name == "api_format":
            return f"targets of kind `{self.name}` support only `api_format: chat`."
        remedy = "Remove it"
        if self.has_address and name not in {"stream", "prompt_cache"}:
            remedy += f", or send a field that its server understands with extra_body.{name}"
        names = sorted(self.all_params - UNIVERSAL_PARAMETERS)
        what = f" It accepts {', '.join(names)}." if names else ""
        interface = "" if self.api_format == "chat" else f" with `api_format: {self.api_format}`"
        return f"targets of kind `{self.name}`{interface} do not accept `{name}`. {remedy}.{what}"

    @property
    def _param_fields(self) -> FileFields:
        taken = self.all_params
        return {name: schema for name, schema in FURTHER_PARAMETERS.items() if name in taken}

    @property
    def short_form_fields(self) -> FileFields:
        """The fields that may stand beside the short form `target: NAME:MODEL`."""
        if self.has_address:
            return {**_KEY, **PARAMETERS, **self._param_fields}
        has_parameters = set(PARAMETERS) <= set(self.file_fields or ())
        return {**PARAMETERS, **self._param_fields} if has_parameters else {}
