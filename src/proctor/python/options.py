"""The options of a run: those of `proctor run`, each under the name of its flag, as a `Request`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, get_type_hints

import msgspec
from msgspec import Meta

from proctor.clusters import check_cluster_field
from proctor.errors import UsageError, suggestion
from proctor.model import GateMode, JudgeRule, Params, Selection, Settings
from proctor.parameters import PARAMETERS, check_parameters, parse_parameters
from proctor.services.runs.config import Config, load_config
from proctor.services.runs.request import Request, choose_engine, complete_settings
from proctor.shards import parse_shard

_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=1)]
_Texts = str | Sequence[str]


class RunOptions(TypedDict, total=False):
    """The options of a run. Each is the flag of `proctor run` with that name; see `proctor run --help`."""

    repeats: _Count
    judge_repeat: _Count
    judge_rule: JudgeRule
    judge_temperature: Annotated[float, Meta(ge=0)]
    concurrency: _Count
    split: Literal["dev", "holdout", "all"]
    holdout: Annotated[float, Meta(ge=0, lt=1)]
    split_method: Literal["rank", "shuffle"]
    tag: _Texts
    all_tag: _Texts
    exclude_tag: _Texts
    category: _Texts
    id: _Texts
    limit: _Count
    shard: str
    """Such as `"0/4"`, the first of four shards."""
    temperature: Annotated[float, Meta(ge=0)]
    seed: int
    max_tokens: _Count
    params: dict[str, Any]
    """Other parameters of the target by name, such as `{"top_p": 0.9, "stop": ["END"]}`."""
    timeout: Annotated[float, Meta(gt=0)]
    retries: Annotated[int, Meta(ge=0)]
    max_answer_bytes: Annotated[int, Meta(ge=1, le=2**29)]
    reuse: bool
    cache: bool
    budget_usd: Annotated[float, Meta(gt=0)]
    max_failures: _Count
    interleave: bool
    keep_workspaces: Literal["none", "failed", "all"]
    engine: str
    engine_address: str
    """The address of a Ray cluster, with the engine `ray`."""
    batch: bool
    """Whether requests are sent in batches, at half the price."""
    threshold: _Share
    min_pass_rate: _Share
    gate_mode: GateMode
    until: Annotated[float, Meta(gt=0, lt=1)]
    """A share, such as 0.02 for two percentage points."""
    stop_when_shown: bool
    cluster: str
    allow_errors: Annotated[int, Meta(ge=0)]
    resume: str | bool
    """A run's id; True for the newest unfinished run of the same suite, target and settings."""
    last_failed: str | bool
    """True for the cases that failed or errored in the newest run; or the id of another run."""
    retry_errors: str
    saved: _Texts
    dialect: str
    strict: bool
    skip_invalid: bool
    group: str


_SETTINGS = {
    "judge_repeat": "judge_repeats",
    "timeout": "timeout_s",
    **{
        name: name
        for name in (
            *("repeats", "judge_rule", "concurrency", "retries", "max_answer_bytes", "reuse", "cache"),
            *("budget_usd", "max_failures", "interleave", "keep_workspaces", "engine", "threshold"),
            *("min_pass_rate", "gate_mode", "until", "stop_when_shown", "cluster", "allow_errors"),
        )
    },
}
"""Options that are fields of `Settings`."""
_SELECTION = {
    "tag": "tags",
    "all_tag": "all_tags",
    "exclude_tag": "exclude_tags",
    "category": "categories",
    "id": "ids",
    "split": "split",
    "limit": "limit",
}
"""Options that are fields of `Selection`."""
_PLAIN = (
    *(
        "dialect",
        "strict",
        "skip_invalid",
        "holdout",
        "split_method",
        "resume",
        "last_failed",
        "retry_errors",
    ),
    "group",
    "engine_address",
)
"""Options that are fields of `Request` of the same name."""
_FLAGS_OF_CALLS = {"target": "targets", "model": "targets", "judge": "judges", "prompt": "prompts"}
"""Flags that the project's file may set, and that are parameters of the functions themselves."""
_OTHER_FLAGS = ("store", "repeat", "attest", "public", "sign-key", "reveal", "tier", "param", "stream")
"""Flags that the project's file may set, which are options under another name or of the command line only."""


def load_project() -> Config:
    """Loads the project's `proctor.toml`, which sets defaults here as it does for `proctor run`.

    Raises:
        UsageError: it is wrong.
    """
    names = [name.replace("_", "-") for name in RunOptions.__annotations__]
    return load_config([*names, *_FLAGS_OF_CALLS, *_OTHER_FLAGS])


def find_default(config: Config, value: Any, *flags: str) -> Any:
    """Returns a value, or what the project's file has for one of these flags if it is None."""
    if value is not None:
        return value
    value = next((config.flags[flag] for flag in flags if flag in config.flags), None)
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def make_request(config: Config, options: Mapping[str, Any], **parts: Any) -> Request:
    """Returns the request of a call.

    Args:
        config: the project's settings.
        options: the options of the call.
        parts: further fields of the request: suites, targets, judges.

    Raises:
        UsageError: an option is unknown, or its value cannot be used.
    """
    checked = check_options({**_defaults(config, options), **options})
    settings = {_SETTINGS[name]: value for name, value in checked.items() if name in _SETTINGS}
    if (batch := checked.pop("batch", None)) is not None:
        is_given = options.get("engine") is not None
        engine = choose_engine(settings.get("engine"), batch, is_given, options.get("batch") is not None)
        settings["engine"] = engine
    if "cluster" in settings:
        check_cluster_field(settings["cluster"])
    selection: dict[str, Any] = {
        field: _as_tuple(checked[name]) if name not in ("split", "limit") else checked[name]
        for name, field in _SELECTION.items()
        if name in checked
    }
    for name in ("resume", "last_failed"):
        word = checked.pop(name, None)
        if isinstance(word, str | bool) and word is not False:
            checked[name] = "" if word is True else word
    if "shard" in checked:
        selection["shard"] = parse_shard(checked["shard"])
    params = {name: checked[name] for name in ("temperature", "seed", "max_tokens") if name in checked}
    explicit = frozenset(settings)
    resumes = checked.get("resume") is not None
    return Request(
        params=Params(**params, **check_parameters(checked.get("params", {}), PARAMETERS)),
        judge_params=Params(temperature=checked.get("judge_temperature", 0.0)),
        settings=complete_settings(
            Settings(selection=Selection(**selection), **settings),
            {_SETTINGS[name] for name in options if name in _SETTINGS},
            resumes=resumes,
        ),
        explicit=explicit,
        flags=frozenset(_find_flags(options, parts)),
        config=config,
        stored_names=_as_tuple(checked.get("saved", ())),
        **{name: checked[name] for name in _PLAIN if name in checked},
        **parts,
    )


def _find_flags(options: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    """Yields the flags that a call stands for."""
    for name, value in options.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            yield {"--repeats": "--repeat", "--batch": "--engine"}.get(flag, flag)
    if parts.get("targets"):
        yield "--target"
    if parts.get("judges"):
        yield "--judge"
    if parts.get("prompts"):
        yield "--prompt"


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that are not None, with their values checked; lists become tuples.

    Raises:
        UsageError: an option is unknown, or its value cannot be used.
    """
    hints = get_type_hints(RunOptions, include_extras=True)
    checked = {}
    for name, value in options.items():
        if name not in hints:
            raise UsageError(f"There is no option {name!r}. {suggestion(name, list(hints))}")
        if value is None:
            continue
        try:
            checked[name] = msgspec.convert(list(value) if _is_collection(value) else value, hints[name])
        except msgspec.ValidationError as error:
            raise UsageError(f"`{name}` is {value!r}. {error}.") from None
    return checked


def _defaults(config: Config, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that the project's file sets and the call does not."""
    flags = {
        "repeats" if name == "repeat" else name.replace("-", "_"): value
        for name, value in config.flags.items()
    }
    words = [*_as_tuple(flags.pop("param", ())), *(["stream=true"] if flags.pop("stream", False) else [])]
    if words:
        flags["params"] = parse_parameters(words)
    defaults = {
        name: value
        for name, value in flags.items()
        if name in RunOptions.__annotations__ and name not in options
    }
    try:
        return check_options(defaults)
    except UsageError as error:
        raise UsageError(f"{config.path}: error: {error}") from None


def _is_collection(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))


def _as_tuple(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
