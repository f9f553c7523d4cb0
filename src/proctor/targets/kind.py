"""`TargetKind`: all that Proctor knows about a kind of target, in one record.

Each kind's own module exports its record, which is cheap to import: what a kind needs to call a model or a
program is imported by its `open_target`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from proctor.model import TargetSpec
    from proctor.protocols import Embeds, Target
    from proctor.targets.context import Opening
    from proctor.targets.entries import TargetEntry

OpenTarget: TypeAlias = "Callable[[TargetSpec, Opening], Awaitable[Target]]"
PARAMETERS: Final = ("temperature", "max_output_tokens", "seed", "system_prompt", "timeout_seconds")
"""The fields of targets.yaml for how a model is called."""
ADDRESS_FIELDS: Final = ("model", "deployment", "variant", "base_url", "endpoint", "api_key", "api_format")
"""The fields of targets.yaml that every kind with an address has besides `PARAMETERS`."""


class TargetKind(Struct, frozen=True, kw_only=True):
    """One kind of target: how it is written, where it is, what it costs and what it can do.

    Only `name` and `open_target` are required. A kind with an `address` or an `address_variable` speaks HTTP:
    it is written `NAME:MODEL[@URL]`, and targets.yaml takes its model, address, key and parameters.
    """

    name: str
    open_target: OpenTarget
    """Opens the target of a specification; raises UsageError where it cannot be opened."""
    syntax: str = ""
    """How the command line writes it, such as `cli:COMMAND LINE`; brackets stand around what is optional."""
    summary: str = ""
    """What `proctor targets list` says about it."""
    stored_kind: str = ""
    """The `kind` of its specifications where that is not its name: a service that another kind calls."""
    aliases: Mapping[str, str] = {}
    """Short words of the command line, each with the model that it stands for."""
    model_pattern: str = ""
    """A regular expression for the beginning of model names that are recognized without the kind."""
    check_model: Callable[[str, str], None] | None = None
    """Checks what follows the colon, given the whole word and that part; raises UsageError."""

    # --- address and key ---
    address: str | None = None
    """The default base URL."""
    stores_address: bool = True
    """Whether a specification contains the default address."""
    address_variable: str = ""
    """The environment variable that replaces the default address."""
    parse_address: Callable[[str], str] | None = None
    """Turns that variable's value into a base URL, where it may have another form."""
    address_help: str = ""
    """What to do where there is no address, as the rest of a sentence about the target."""
    key_variables: tuple[str, ...] = ()
    """The environment variables with the key for the origin of `address`; the first that is set counts."""
    key_hosts: tuple[str, ...] = ()
    """Endings of further host names that get the same key."""

    # --- targets.yaml ---
    provider_names: tuple[str, ...] = ()
    """Other names for it as a `provider`."""
    file_fields: tuple[str, ...] | None = None
    """The fields of its own; None where the file cannot name it. Kinds with an address have more."""
    read_entry: Callable[[TargetSpec, TargetEntry], TargetSpec] | None = None
    """Fills in a specification from these fields; problems go to the entry's notes."""
    model_is_file: bool = False
    """Whether the model is a file, named from the folder of targets.yaml; bundles tell only its name."""

    # --- calls ---
    default_concurrency: int | None = None
    """How many calls at once make sense; None leaves it to the run."""
    default_max_tokens: int | None = None
    """The longest answer, in tokens, where the user sets no limit."""
    enforces_timeout: bool = False
    """Whether it ends a call by itself when the time limit is reached."""
    is_cacheable: bool = True
    """Whether answers may be cached; not where a file or a program may change under its name."""
    is_instant: bool = False
    """Whether an answer takes no noticeable time."""
    reads_case_ids: bool = False
    """Whether it answers by the id of the case rather than by the prompt."""
    first_case: Callable[[str], str] | None = None
    """The id of a case that a target of this kind can answer, by what follows the colon."""
    open_embeddings: Callable[[TargetSpec, Opening], Embeds] | None = None
    """Opens an embedding model, where it has some."""

    # --- prices ---
    bills_per_prompt: bool = False
    """Whether a call costs what its prompt and answer cost; a program may call a model many times."""
    has_list_prices: bool = False
    """Whether the list prices of models hold at its `address`."""
    is_free: bool = False
    is_prepaid: bool = False
    """Whether its answers were paid for earlier, so that a budget does not count them."""
    reports_cost: bool = False
    """Whether answers can report their own cost."""

    # --- pages ---
    web_note: str = ""
    """Offers it by its name on every page that starts runs, with this note; empty where it is not."""
    is_typed_in_web: bool = False
    """Whether a visitor may type `NAME:MODEL`; the request goes to the default address."""

    @property
    def spec_kind(self) -> str:
        """The `kind` of its specifications."""
        return self.stored_kind or self.name

    @property
    def has_address(self) -> bool:
        """Whether it is called over HTTP at an address that the user may replace."""
        return self.address is not None or bool(self.address_variable)

    @property
    def entry_fields(self) -> tuple[str, ...] | None:
        """Its fields of targets.yaml besides those of all kinds; None where the file cannot name it."""
        if self.has_address:
            return (*ADDRESS_FIELDS, *PARAMETERS, *(self.file_fields or ()))
        return self.file_fields

    @property
    def short_form_fields(self) -> tuple[str, ...]:
        """Those of them that may stand beside the short form `target: NAME:MODEL`."""
        if self.has_address:
            return ("api_key", *PARAMETERS)
        return PARAMETERS if set(PARAMETERS) <= set(self.file_fields or ()) else ()
