"""Checks what a target can do, records it beside the store, and finds what a suite needs besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.abilities import (
    ABILITIES_NAME,
    ABILITY_ACTIONS,
    MAX_TOKENS,
    PARAMETER_ABILITIES,
    THINKING_TOKENS,
    Ability,
    AbilityCheck,
    AbilityStatus,
    make_abilities,
)
from proctor.codec import target_digest
from proctor.errors import TargetError, UsageError
from proctor.file_lock import lock_file
from proctor.model import Attachment, Output, Params, Prompt, PromptTemplate, TargetSpec
from proctor.services.runs.execution.target_pool import TargetPool
from proctor.targets import get_service
from proctor.targets.kind import TargetKind

_MAX_DETAIL: Final = 400
_SHORTFALLS: Final[dict[AbilityStatus, str]] = {
    "not shown": "did not",
    "refused": "refused to",
    "not offered": "could not",
    "failed": "failed to",
}
"""How a sentence about an ability that a target lacks begins, after the target and before the action."""


class CheckedTarget(Struct, frozen=True, kw_only=True):
    """The newest checks of one target."""

    name: str
    """What the user wrote for it."""
    checks: tuple[AbilityCheck, ...]


# --- checks ------------------------------------------------------------------------------------------------


async def check_abilities(
    pool: TargetPool, spec: TargetSpec, *, on_check: Callable[[AbilityCheck], None] = lambda _check: None
) -> list[AbilityCheck]:
    """Sends one small request for each ability, and returns the results in order.

    If the first request fails, which only asks for a word, no other is sent.

    Args:
        pool: opens the target; it retries nothing that is not worth it.
        spec: the target; its fallbacks are not called.
        on_check: called with each result.

    Raises:
        UsageError: the target cannot be opened.
    """
    checks: list[AbilityCheck] = []
    for ability in make_abilities():
        check = await _check_ability(pool, replace(spec, fallbacks=(), judge=None), ability)
        checks.append(check)
        on_check(check)
        if ability.name == "text" and check.status in ("failed", "refused"):
            return checks
    checks.append(await _check_batches(pool, spec))
    on_check(checks[-1])
    return checks


async def _check_batches(pool: TargetPool, spec: TargetSpec) -> AbilityCheck:
    """Lists the batches at a service: one that is submitted may take a day, and the list costs nothing."""
    kind, at = get_service(spec), datetime.now(UTC)
    if not kind.batches:
        detail = f"Targets of kind {kind.name} have no batches."
        return AbilityCheck(ability="batch", status="not offered", detail=detail, cost_usd=0.0, at=at)
    target = await pool.open_batches(spec)
    try:
        await target.service.find("proctor-check", 0, at, ())
    except TargetError as error:
        return AbilityCheck(
            ability="batch", status="failed", detail=str(error)[:_MAX_DETAIL], cost_usd=0.0, at=at
        )
    return AbilityCheck(ability="batch", status="works", cost_usd=0.0, at=at)


async def _check_ability(pool: TargetPool, spec: TargetSpec, ability: Ability) -> AbilityCheck:
    kind = get_service(spec).with_format(spec.params.api_format)
    at = datetime.now(UTC)
    params = _choose_params(kind, ability)
    if params is None or not _takes_files(kind, ability.prompt):
        detail = (
            f"Targets of kind {kind.name} have no {'such parameter' if params is None else 'such files'}."
        )
        return AbilityCheck(ability=ability.name, status="not offered", detail=detail, cost_usd=0.0, at=at)
    limit = spec.params.max_tokens or MAX_TOKENS
    if "thinking_budget" in params:
        limit += THINKING_TOKENS
    try:
        target = await pool.open_target(
            replace(spec, params=replace(spec.params, **{"max_tokens": limit, **params}))
        )
        output = await target.answer(ability.prompt)
    except TargetError as error:
        return _describe_failure(ability, error, at)
    return _describe_answer(ability, output, at)


def _choose_params(kind: TargetKind, ability: Ability) -> dict[str, object] | None:
    """Returns the parameters of a request; None if the kind lacks one."""
    if all(name in kind.all_params for name in ability.params):
        return ability.params
    if ability.name == "reasoning" and "thinking_budget" in kind.all_params:
        return {"thinking_budget": THINKING_TOKENS}
    return None


def _takes_files(kind: TargetKind, prompt: Prompt) -> bool:
    files = (part for message in prompt.messages for part in message.parts if isinstance(part, Attachment))
    return all(kind.takes(file.medium, file.media_type) for file in files)


def _describe_failure(ability: Ability, error: TargetError, at: datetime) -> AbilityCheck:
    from proctor.targets.api.http import RefusedRequest

    status: AbilityStatus = "refused" if isinstance(error, RefusedRequest) else "failed"
    return AbilityCheck(
        ability=ability.name,
        status=status,
        detail=str(error)[:_MAX_DETAIL],
        cost_usd=0.0 if status == "refused" else None,
        at=at,
    )


def _describe_answer(ability: Ability, output: Output, at: datetime) -> AbilityCheck:
    fault = ability.judge(output)
    return AbilityCheck(
        ability=ability.name,
        status="works" if fault is None else "not shown",
        detail=(fault or "")[:_MAX_DETAIL],
        cost_usd=output.cost_usd,
        latency_ms=output.latency_ms,
        at=at,
    )


# --- the record --------------------------------------------------------------------------------------------


def endpoint_digest(spec: TargetSpec) -> str:
    """Returns the digest of a model at an endpoint, without the parameters that no ability depends on."""
    params = Params(
        api_format=spec.params.api_format, extra_body=spec.params.extra_body, headers=spec.params.headers
    )
    return target_digest(replace(spec, params=params, fallbacks=()))


def load_checks(folder: Path) -> Mapping[str, CheckedTarget]:
    """Returns the recorded checks by the digests of their endpoints.

    Raises:
        UsageError: the file cannot be read.
    """
    path = folder / ABILITIES_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, CheckedTarget])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"{path} cannot be read: {error}. Remove it, and check the targets again."
        raise UsageError(message) from None


def _load_readable_checks(folder: Path) -> Mapping[str, CheckedTarget]:
    try:
        return load_checks(folder)
    except UsageError:
        return {}


def record_checks(folder: Path, spec: TargetSpec, checks: list[AbilityCheck]) -> None:
    """Replaces the recorded checks of a target.

    A file that cannot be read is replaced: it has nothing but checks, which can be made again.

    Raises:
        UsageError: the file cannot be written.
    """
    path = folder / ABILITIES_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock_file(folder / f"{ABILITIES_NAME}.lock"):
            targets = {
                **_load_readable_checks(folder),
                endpoint_digest(spec): CheckedTarget(name=spec.name, checks=tuple(checks)),
            }
            part = path.with_suffix(".part")
            part.write_bytes(msgspec.json.format(msgspec.json.encode(targets)))
            part.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def warn_of_missing_abilities(
    folder: Path, spec: TargetSpec, needs: Mapping[str, str], prompt: PromptTemplate | None = None
) -> Iterator[str]:
    """Yields a sentence for each ability that a run needs and the target did not show when last checked.

    Args:
        folder: the folder of the store.
        spec: the target, whose own parameters need abilities too.
        needs: abilities by their names, each with the id of the first case that needs it.
        prompt: the prompt of the run, which may need abilities besides.
    """
    try:
        target = load_checks(folder).get(endpoint_digest(spec))
    except UsageError as error:
        yield str(error)  # a record of what was known once stops no run
        return
    if target is None:
        return
    own = [name for name in spec.params.further if name in PARAMETER_ABILITIES]
    subjects = {PARAMETER_ABILITIES[name]: f"`{name}` is set" for name in own}
    if prompt is not None and any(message.role in ("system", "developer") for message in prompt.messages):
        subjects["system"] = f"prompt {prompt.name!r} needs it"
    subjects |= {name: f"case {case_id!r} needs it" for name, case_id in needs.items()}
    for check in target.checks:
        if check.ability in subjects and check.status != "works":
            detail = f": {check.detail}" if check.detail else "."
            action = ABILITY_ACTIONS.get(check.ability, f"show the ability {check.ability!r}")
            yield (
                f"Target {spec.name!r} {_SHORTFALLS[check.status]} {action} when checked on "
                f"{check.at:%d %B %Y}, but {subjects[check.ability]}{detail}"
            )
