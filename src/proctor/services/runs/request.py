"""What a user requests: suites, targets, judges and settings, as words of the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import BATCH_ENGINE, Assertion, Params, PromptTemplate, Settings, Suite, TargetSpec
from proctor.protocols import SuiteSource
from proctor.services.runs.config import Config
from proctor.verdicts import ORDER_SEED


class Request(Struct, frozen=True, kw_only=True):
    """What a user requests, in the words of the command."""

    suites: tuple[str, ...] = ()
    saved_suites: tuple[Suite, ...] = ()
    """Further suites, which are in the store; no file of that name is looked for."""
    stored_names: tuple[str, ...] = ()
    """Names of suites in the store: `NAME` for the version last saved, or `NAME@v2`."""
    sources: tuple[SuiteSource, ...] = ()
    """Further suites, which are no files."""
    assertions: tuple[Assertion, ...] = ()
    """Grade every case of a file or a source instead of its own assertions."""
    targets: tuple[str | TargetSpec, ...] = ()
    prompts: tuple[str | PromptTemplate, ...] = ()
    """Each a file or `NAME=FILE`; or a prompt. Each makes runs of its own. Empty for those of the suite."""
    judges: tuple[str | TargetSpec, ...] = ()
    params: Params = Params()
    judge_params: Params = Params()
    settings: Settings = Settings()
    explicit: frozenset[str] = frozenset()
    """The fields of `settings` that were given and not left at their defaults."""
    words_after_flags: dict[str, str] = {}
    """Words right after a flag that takes a value only with `=`, each with that flag."""
    flags: frozenset[str] = frozenset()
    """The flags given on the command line, such as `--repeat`; those of `proctor.toml` are not included."""
    store: str | None = None
    """`--store`, for commands that messages suggest."""
    dialect: str | None = None
    strict: bool = False
    """A file of a folder that no format recognises is an error; else it is skipped."""
    skip_invalid: bool = False
    """An invalid case counts as an error, and the other cases are run."""
    engine_address: str | None = None
    """The address of the cluster of a remote engine; None for the usual one."""
    config: Config = Config()
    """The project's settings for reading suites."""
    holdout: float | None = None
    """The share of each suite to hold out; None leaves that to its dialect."""
    split_method: Literal["rank", "shuffle"] | None = None
    resume: str | None = None
    """A run's id; empty for the newest unfinished run of the same suite, target and settings."""
    retry_errors: str | None = None
    """A run's id: send its ERROR trials again, grade its UNSCORED trials again, and reuse the rest."""
    last_failed: str | None = None
    """Run only the cases without PASS in this run and those before it; empty for the newest run."""
    regrade: str | None = None
    """A run's id: grade its answers again, without calling a target."""
    group: str | None = None
    """The group id of the new runs; None for a new one."""
    is_single: bool = False
    """Whether the caller expects one run; more are refused before the first call."""

    @property
    def has_suite_names(self) -> bool:
        """Whether it names suites in words, or has them."""
        return bool(self.suites or self.stored_names or self.sources)


def split_prompt_word(word: str) -> tuple[str, str]:
    """Returns the name and the file of a prompt, from `NAME=FILE` or a file, which names it by its stem."""
    named = None if os.path.isfile(word) else re.fullmatch(r"([^=/\\]+)=(.+)", word, re.DOTALL)  # noqa: PTH113
    return (named[1].strip(), named[2]) if named else (Path(word).stem, word)


def complete_settings(settings: Settings, given: Collection[str], *, resumes: bool) -> Settings:
    """Returns the settings of a request, with what follows from those that were given.

    Args:
        settings: the settings.
        given: the fields that the user gave for this request, not in a file.
        resumes: whether the request continues a stored run, which may have a gate.

    Raises:
        UsageError: one needs a gate, and there is none; or two contradict each other.
    """
    if settings.min_pass_rate is None and not resumes:
        for name in ("gate_mode", "stop_when_shown"):
            if name in given:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} needs a gate. Add --min-pass-rate, such as 0.8.")
        settings = replace(settings, gate_mode="point", stop_when_shown=False)
    if settings.stop_when_shown:
        if settings.gate_mode == "point" and "gate_mode" in given:
            raise UsageError(
                "--stop-when-shown uses the interval of the pass rate, which --gate-mode point does "
                "not have. Remove one of the two."
            )
        settings = replace(settings, gate_mode="interval")
    if settings.is_watched and settings.selection.shard is not None:
        raise UsageError(
            "--until and --stop-when-shown need the results of the whole suite, but a shard has only a "
            "part. Remove these flags, or --shard."
        )
    return replace(settings, order_seed=ORDER_SEED) if settings.is_watched else settings


def choose_engine(engine: str | None, batch: bool, engine_given: bool, batch_given: bool) -> str:
    """Returns the engine of a request that says whether requests are sent in batches.

    Args:
        engine: the engine; None for the usual one.
        batch: whether requests are sent in batches.
        engine_given: whether the user gave the engine for this request, not in a file.
        batch_given: the same for `batch`.

    Raises:
        UsageError: both were given, and they contradict each other.
    """
    usual = Settings().engine
    if batch and engine not in (None, usual, BATCH_ENGINE) and engine_given:
        if batch_given:
            raise UsageError(
                f"--batch is an engine of its own, but --engine names {engine!r}. Remove one of them."
            )
        return engine
    if batch and (batch_given or not engine_given):
        return BATCH_ENGINE
    return usual if engine is None or (engine == BATCH_ENGINE and batch_given) else engine


def new_id() -> str:
    """Returns a new id for a run or a group: sorts by time, and is unique without a registry."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def check_group_id(group: str) -> None:
    """Checks a group id; `last` is reserved for the newest run.

    Raises:
        UsageError: the id is malformed or reserved.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", group) or group == "last":
        raise UsageError(
            f"{group[:80]!r} is not a valid group id. Use 1 to 64 characters from A-Z, a-z, 0-9, `.`, "
            "`_` and `-`, other than the word `last`."
        )
