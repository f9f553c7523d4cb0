"""The settings of a run that a server starts, as numbers and names, as a request and as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from msgspec import Struct

from proctor.comparison.outcomes import SplitName
from proctor.model import GateMode, Params, PromptTemplate, Selection, Settings
from proctor.parameters import format_words, parse_parameters
from proctor.protocols import SuiteSource
from proctor.services.runs.request import Request
from proctor.services.runs.starts.allowed_targets import ProjectDefaults, RunContext
from proctor.shards import parse_shard


class NumberField(Struct, frozen=True):
    """A number field; its limits are those of the command line's flag."""

    flag: str
    is_integer: bool
    default: float | None = None
    """The value if the field is empty and the project sets none."""
    min_value: float | None = None
    exclusive_min: bool = False
    """Whether `min_value` itself is too small."""
    max_value: float | None = None
    exclusive_max: bool = False
    """Whether `max_value` itself is too large."""

    @property
    def description(self) -> str:
        """The valid values in words."""
        kind = "a whole number" if self.is_integer else "a number"
        if self.min_value is None:
            return kind
        if self.max_value is not None:
            below = "below " if self.exclusive_max else ""
            return f"{kind} from {self.min_value:g} to {below}{self.max_value:g}"
        if self.exclusive_min:
            return f"{kind} above {self.min_value:g}"
        return f"{kind}, {self.min_value:g} or more"

    def accepts(self, value: float) -> bool:
        """Whether the number is within the limits."""
        low = self.min_value is not None and (
            value <= self.min_value if self.exclusive_min else value < self.min_value
        )
        high = self.max_value is not None and (
            value >= self.max_value if self.exclusive_max else value > self.max_value
        )
        return isfinite(value) and not low and not high


NUMBER_FIELDS: Final[dict[str, NumberField]] = {
    "holdout": NumberField("holdout", is_integer=False, min_value=0, max_value=1, exclusive_max=True),
    "repeats": NumberField("repeat", is_integer=True, default=1, min_value=1),
    "concurrency": NumberField("concurrency", is_integer=True, default=32, min_value=1),
    "budget_usd": NumberField("budget-usd", is_integer=False, min_value=0, exclusive_min=True),
    "temperature": NumberField("temperature", is_integer=False, default=0, min_value=0),
    "seed": NumberField("seed", is_integer=True, default=42),
    "max_tokens": NumberField("max-tokens", is_integer=True, min_value=1),
    "threshold": NumberField("threshold", is_integer=False, min_value=0, max_value=1),
    "min_pass_rate": NumberField("min-pass-rate", is_integer=False, min_value=0, max_value=1),
    "until": NumberField("until", is_integer=False, min_value=0.001, max_value=0.5),
}
"""All number fields by name."""


def default_number(field: str, defaults: ProjectDefaults) -> float | None:
    """Returns the value of a number field that is left empty."""
    project_default = defaults.number(NUMBER_FIELDS[field].flag)
    return NUMBER_FIELDS[field].default if project_default is None else project_default


class RunForm(Struct, frozen=True, kw_only=True):
    """A validated form."""

    suite: str
    """The name of the suite."""
    version: str | None
    """None for a built-in suite, or one of a file."""
    sources: tuple[SuiteSource, ...] = ()
    """The file of the suite, whose path is then its name."""
    targets: tuple[str, ...] = ()
    stored_prompts: tuple[PromptTemplate, ...] = ()
    written_prompts: tuple[PromptTemplate, ...] = ()
    """Prompts whose text is in the form."""
    judges: tuple[str, ...] = ()
    split: SplitName | None = None
    numbers: dict[str, float] = {}
    """Values of number fields that differ from the default."""
    gate_mode: GateMode | None = None
    """None leaves it to the default."""
    stop_when_shown: bool = False
    """Whether the run stops when its gate is shown or ruled out."""
    cluster: str | None = None
    """The field that says which cases are related; None leaves it to the default."""
    interleave: bool | None = None
    """Whether several runs are made in turns; None for the default."""
    reuse: bool | None = None
    tags: tuple[str, ...] = ()
    all_tags: tuple[str, ...] = ()
    limit: int | None = None
    """The maximum number of cases; None leaves it to the default."""
    params: dict[str, Any] = {}
    """Further parameters of the targets by their names in `Params`; empty leaves them to the default."""

    @property
    def prompts(self) -> tuple[PromptTemplate, ...]:
        """All prompts; empty for the project's or those of the suite."""
        return self.stored_prompts + self.written_prompts

    @property
    def arguments(self) -> list[str]:
        """The arguments after `proctor run` for a person, who saves a written prompt as a file first."""
        names = [prompt.name for prompt in self.stored_prompts]
        return self.make_arguments([*names, *(f"{prompt.name}.md" for prompt in self.written_prompts)])

    def make_arguments(self, prompt_words: Sequence[str]) -> list[str]:
        """Returns the arguments after `proctor run`; each value is attached to its flag.

        Args:
            prompt_words: the words that stand for the prompts.
        """
        arguments = [self.suite if self.version is None else f"--saved={self.suite}@{self.version}"]
        arguments += [f"--target={name}" for name in self.targets]
        arguments += [f"--prompt={word}" for word in prompt_words]
        arguments += [f"--judge={name}" for name in self.judges]
        arguments += [] if self.split is None else [f"--split={self.split}"]
        arguments += [f"--tag={tag}" for tag in self.tags]
        arguments += [f"--all-tag={tag}" for tag in self.all_tags]
        arguments += [f"--{NUMBER_FIELDS[name].flag}={value:.12g}" for name, value in self.numbers.items()]
        arguments += [f"--param={word}" for word in format_words(self.params)]
        arguments += [] if self.limit is None else [f"--limit={self.limit}"]
        arguments += [] if self.gate_mode is None else [f"--gate-mode={self.gate_mode}"]
        arguments += ["--stop-when-shown"] if self.stop_when_shown else []
        arguments += [] if self.cluster is None else [f"--cluster={self.cluster}"]
        if self.interleave is not None:
            arguments.append("--interleave" if self.interleave else "--no-interleave")
        arguments += [] if self.reuse is None else ["--reuse" if self.reuse else "--no-reuse"]
        return arguments

    def to_request(self, context: RunContext) -> Request:
        """Returns the request that the command line would make of the arguments."""
        defaults = context.defaults
        numbers = {name: self.numbers.get(name, default_number(name, defaults)) for name in NUMBER_FIELDS}
        reuse = defaults.value("reuse", bool) if self.reuse is None else self.reuse
        interleave = defaults.value("interleave", bool) if self.interleave is None else self.interleave
        integers = {
            name: int(value)
            for name, value in numbers.items()
            if value is not None and NUMBER_FIELDS[name].is_integer
        }
        cluster = self.cluster or defaults.value("cluster", str)
        explicit = {
            name
            for name in ("concurrency", "budget_usd")
            if defaults.number(NUMBER_FIELDS[name].flag) is not None
        }
        explicit |= {"cluster"} if cluster else set()
        settings = Settings(
            selection=self._selection(defaults),
            repeats=integers["repeats"],
            concurrency=integers["concurrency"],
            budget_usd=numbers["budget_usd"],
            judge_repeats=defaults.value("judge-repeat", int) or 1,
            reuse=bool(reuse),
            cache=bool(defaults.value("cache", bool)),
            cluster=cluster,
            interleave=bool(interleave),
            until=numbers["until"],
            stop_when_shown=self.stop_when_shown,
        )
        return Request(
            suites=() if self.version or self.sources else (self.suite,),
            sources=self.sources,
            stored_names=(f"{self.suite}@{self.version}",) if self.version else (),
            targets=self.targets or defaults.texts("target", "model"),
            prompts=self.prompts or defaults.texts("prompt"),
            judges=self.judges or defaults.texts("judge"),
            params=Params(
                temperature=numbers["temperature"],
                seed=integers["seed"],
                max_tokens=integers.get("max_tokens"),
                **(self.params or parse_parameters(defaults.texts("param"))),
            ),
            settings=settings,
            explicit=frozenset({*self.numbers, *explicit, *({"reuse"} if reuse is not None else ())}),
            config=context.config,
            flags=frozenset({"--holdout"} & {f"--{name}" for name in self.numbers}),
            holdout=numbers["holdout"],
            split_method=next(
                (method for method in ("rank", "shuffle") if method in defaults.texts("split-method")), None
            ),
        )

    def _selection(self, defaults: ProjectDefaults) -> Selection:
        shard = defaults.value("shard", str)
        return Selection(
            shard=None if shard is None else parse_shard(shard),
            split=self.split or defaults.split,
            tags=self.tags or defaults.texts("tag"),
            all_tags=self.all_tags or defaults.texts("all-tag"),
            exclude_tags=defaults.texts("exclude-tag"),
            categories=defaults.texts("category"),
            ids=defaults.texts("id"),
            limit=self.limit or defaults.value("limit", int),
        )
