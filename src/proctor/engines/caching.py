"""A cache of answers, each keyed by everything that it depends on.

Every miss has a reason: the cache keeps the parts of earlier keys, which show what was different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.structs import replace

from proctor.codec import decode, encode, encode_in_order
from proctor.errors import TargetError
from proctor.model import Output, Prompt, TargetSpec
from proctor.plurals import pluralize
from proctor.protocols import AnswerCache, Answerer

_PREFIX = sha256(b"proctor/cache/1\n")
_UNSENT_TARGET_FIELDS = frozenset({"name", "judge", "fallbacks", "workers", "retries", "params", "options"})
"""Fields of a target that are not sent, or are handled separately."""
_UNSENT_PROMPT_FIELDS = frozenset({"case_id", "workspace", "temperature"})
_SENT_IF_SET_FIELDS = frozenset({"choice_delimiter", "choices", "json_answer", "tools", "params"})
"""Fields that older entries do not have: left out if unset, so that older entries still match."""
_ORDER_SENSITIVE_FIELDS = frozenset({"response_schema", "tools"})
"""Fields whose keys are sent in order, because the order may change the answer."""
_SHORT_FIELDS = frozenset({"repeat", "json_answer"})
_REFUSAL_REASONS = frozenset(
    {"blocklist", "content_filter", "prohibited_content", "recitation", "refusal", "safety", "spii"}
)

KeyParts = dict[str, Any]
"""Everything that an answer depends on, by name; long parts are digests."""


class CacheStats:
    """Counts the hits and misses of one run."""

    def __init__(self) -> None:
        """Starts at zero."""
        self.hits = 0
        self.misses: Counter[str] = Counter()
        """The number of calls by reason."""


class CallCounts(Struct, frozen=True, kw_only=True):
    """What the calls of one worker, or of several, found in the cache and cost; can be pickled."""

    cache_hits: int = 0
    cache_misses: Mapping[str, int] = {}
    """The number of calls by reason."""
    assumed_calls: int = 0
    """How many calls did not report their cost, in a run with a budget."""

    def plus(self, other: CallCounts) -> CallCounts:
        """Returns the counts of both together."""
        return CallCounts(
            cache_hits=self.cache_hits + other.cache_hits,
            cache_misses=dict(Counter(self.cache_misses) + Counter(other.cache_misses)),
            assumed_calls=self.assumed_calls + other.assumed_calls,
        )

    def notes(self) -> list[str]:
        """Returns sentences on cache and budget for the end of a run."""
        cache_note = self._describe_cache()
        notes = [] if cache_note is None else [cache_note]
        if self.assumed_calls:
            notes.append(
                f"{pluralize(self.assumed_calls, 'call')} did not report a cost. For each, the budget "
                "counts the maximum that it may have cost or, if the price is unknown, the most "
                "expensive call so far."
            )
        return notes

    def _describe_cache(self) -> str | None:
        """Returns the look-ups in the cache as a sentence; None if there was none."""
        missed = sum(self.cache_misses.values())
        if not self.cache_hits and not missed:
            return None
        summary = f"{pluralize(self.cache_hits, 'answer')} came from the cache"
        if not missed:
            return f"{summary}; no request was sent."
        by_count = sorted(self.cache_misses.items(), key=lambda item: -item[1])
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in by_count)
        return f"{summary}, {missed:,} did not: {reasons}."


class CachedTarget:
    """A target that is called only if an answer is not in the cache."""

    def __init__(
        self,
        target: Answerer,
        spec: TargetSpec,
        keeps: AnswerCache,
        lookups: CacheStats,
        *,
        role: str = "target",
        secret: Callable[[Output], bool] = lambda _output: False,
        is_cacheable: bool = True,
    ) -> None:
        """Wraps a target.

        Args:
            target: the target to call, with its fallbacks.
            spec: its specification, with references substituted but for secrets.
            keeps: stores the answers.
            lookups: counts hits and misses.
            role: calls are compared only with earlier ones of the same role.
            secret: returns whether an answer contains a secret.
            is_cacheable: False for a file or a program, which may have changed under the same name.
        """
        self._target = target
        self._cache = keeps
        self._stats = lookups
        self._role = role
        self._repeats_secret = secret
        self._has_fallbacks = bool(spec.fallbacks)
        self._uncacheable_reason = (
            f"not cached because the program or file behind a {spec.kind} target may change"
        ) * (not is_cacheable)
        self._parts = target_parts(spec)

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the answer; it is marked as `cached` if no call was made.

        Raises:
            TargetError: there is none.
        """
        never = self._uncacheable_reason or "not cached because the case has a workspace" * (
            prompt.workspace is not None
        )
        if never:
            self._stats.misses[never] += 1
            return await self._target.answer(prompt)
        parts = self._parts | _prompt_parts(prompt)
        encoded_parts = encode(parts)
        hasher = _PREFIX.copy()
        hasher.update(encoded_parts)
        key, about = hasher.digest(), f"{self._role} {prompt.case_id}"
        cached_answer = self._cache.get(key)
        output = (
            _decode_output(cached_answer[0])
            if cached_answer is not None and cached_answer[0] is not None
            else None
        )
        if output is not None:
            self._stats.hits += 1
            return output
        self._stats.misses[_miss_reason(parts, cached_answer, self._cache.earlier_parts(about))] += 1
        try:
            output = await self._target.answer(prompt)
        except TargetError as error:
            if error.kind != "budget":
                self._cache.put(key, about, encoded_parts, None, "failed")
            raise
        why_not = self._rejection_reason(output)
        self._cache.put(key, about, encoded_parts, None if why_not else encode(output), why_not)
        return output

    def _rejection_reason(self, output: Output) -> str:
        """Returns why an answer is not cached, as a phrase after "sent before but"; empty if it is."""
        if output.target is not None:
            return "answered by a fallback"
        if not output.text.strip() and not output.tool_calls:
            return "got an empty answer"
        if (output.finish_reason or "").lower() in _REFUSAL_REASONS:
            return "was refused an answer"
        return "got an answer that repeats a secret" if self._repeats_secret(output) else ""


def target_parts(spec: TargetSpec) -> KeyParts:
    """Returns the parts of a target that its answers depend on."""
    fields = set(spec.__struct_fields__) - _UNSENT_TARGET_FIELDS
    params = {name: getattr(spec.params, name) for name in ("temperature", "seed", "max_tokens")}
    options = {
        name: value for name, value in spec.options.items() if name != "service" or spec.params.further
    }
    parts = {name: getattr(spec, name) for name in fields} | params | {"options": _digest(options)}
    return parts | {name: encode(value).decode() for name, value in spec.params.further.items()}


def _prompt_parts(prompt: Prompt) -> KeyParts:
    """Returns the parts of a prompt that its answers depend on."""
    names = [name for name in prompt.__struct_fields__ if name not in _UNSENT_PROMPT_FIELDS]
    parts: KeyParts = {name: getattr(prompt, name) for name in names}
    parts = {
        name: part for name, part in parts.items() if part or part == "" or name not in _SENT_IF_SET_FIELDS
    }
    parts |= {
        name: _digest(part, in_order=name in _ORDER_SENSITIVE_FIELDS or _calls_tools(name, prompt))
        for name, part in parts.items()
        if part is not None and name not in _SHORT_FIELDS
    }
    return parts if prompt.temperature is None else parts | {"temperature": float(prompt.temperature)}


def _calls_tools(name: str, prompt: Prompt) -> bool:
    """Whether this part of a prompt is its messages and they have tool calls, with free-form arguments."""
    return name == "messages" and any(message.tool_calls for message in prompt.messages)


def _digest(part: Any, *, in_order: bool = False) -> str:
    try:
        # Older entries sorted all keys, so for these parts they never match.
        encoded = b"as written\n" + encode_in_order(part) if in_order else encode(part)
    except UnicodeEncodeError:  # half of a surrogate pair
        encoded = repr(part).encode("ascii", "backslashreplace")
    return "sha256:" + sha256(encoded).hexdigest()


def _decode_output(value: bytes) -> Output | None:
    try:
        return replace(decode(value, Output), cached=True, queue_ms=0.0)
    except (DecodeError, UnicodeDecodeError):
        return None


# --- reasons for misses ------------------------------------------------------------------------------------


def _miss_reason(parts: KeyParts, entry: tuple[bytes | None, str] | None, earlier: Sequence[bytes]) -> str:
    """Returns why an answer was not in the cache, as a phrase after a number of calls."""
    if entry is not None:
        return f"sent before but {entry[1] or 'kept in a form that cannot be read'}"
    nearest: KeyParts | None = None
    for earlier_parts in earlier:
        try:
            other = decode(earlier_parts, dict)
        except (DecodeError, UnicodeDecodeError):
            continue
        names = sorted(parts.keys() | other.keys())
        different = {name: other.get(name) for name in names if other.get(name) != parts.get(name)}
        same_target = different.keys().isdisjoint({"kind", "model", "endpoint"})
        if (same_target or "messages" not in different) and (
            nearest is None or len(different) < len(nearest)
        ):
            nearest = different
    if not nearest:
        return "never sent before"
    if nearest.keys() == {"repeat"}:
        return "not sent for this repeat before"
    return "sent before with " + " and ".join(
        _describe_difference(name, then, parts.get(name)) for name, then in nearest.items()
    )


def _describe_difference(name: str, then: Any, now: Any) -> str:
    what = name.replace("_", " ")
    if any(isinstance(part, str) and part.startswith("sha256:") for part in (then, now)):
        return f"{'other' if what.endswith('s') else 'another'} {what}"
    return f"{what} {_format_part(then)} instead of {_format_part(now)}"


def _format_part(part: Any) -> str:
    if part is None:
        return "unset"
    return f"{part:g}" if isinstance(part, float) else str(part)
