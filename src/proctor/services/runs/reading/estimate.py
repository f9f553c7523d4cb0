"""Estimates the calls, the cost and the duration of a request.

No request is sent and nothing is saved. Calls are counted in the suite; tokens and speed come from earlier
runs where there are any. A price or speed that is not known stays unknown.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.errors import UsageError
from proctor.graders import GRADERS
from proctor.grading import bind
from proctor.model import Case, Message, Params, Seat, Suite, TargetSpec, Usage
from proctor.plan import Indexer, repeats_of
from proctor.pricing import cost_usd
from proctor.protocols import Placed, Store
from proctor.services.runs.execution.target_pool import Prices, load_prices, places_of, tells_cost
from proctor.services.runs.planning.judge_choice import Wishes, judge_of
from proctor.services.runs.planning.requested_runs import with_defaults
from proctor.services.runs.planning.target_names import Names
from proctor.services.runs.reading.estimate_record import ANSWER_TOKENS, BYTES_A_TOKEN, Estimate, Share
from proctor.services.runs.reading.history import Measured, Measures, key_of
from proctor.services.runs.request import Request
from proctor.services.suites.builtin_suites import BUILTIN, TIERS, builtin
from proctor.services.suites.load import Loaded, survey
from proctor.services.suites.save_and_open import stored_suite
from proctor.services.suites.split import as_asked
from proctor.targets import get_kind

JUDGING_TOKENS = 300
"""Tokens of a judge prompt besides prompt, criteria and answer."""


def estimated(
    store: Store, request: Request, environ: Mapping[str, str], *, folder: Path, start: Path | None = None
) -> Estimate:
    """Estimates the calls, cost and duration of a request.

    Args:
        store: has its suites and earlier runs.
        request: the request; its suites are built-in or in the store.
        environ: the environment variables that target names may refer to.
        folder: the folder of the store, which may have the user's own prices.
        start: where the search for the targets file starts; None is the working directory.

    Raises:
        SuiteError: the targets file is wrong, or a variable that a target names is not set.
        UsageError: there is no such suite or target.
    """
    prices = load_prices(environ, folder)
    names = Names(environ, start)
    parts = [_of_suite(store, suite, request, names, prices) for suite in _suites(store, request)]
    if not parts:
        raise UsageError("Choose a suite.")
    total = parts[0]
    for part in parts[1:]:
        total = _together(total, part)
    return total


def _together(first: Estimate, second: Estimate) -> Estimate:
    split = [part for part in (first, second) if part.dev is not None]
    return replace(
        first,
        cases=first.cases + second.cases,
        dev=sum(part.dev or 0 for part in split) if len(split) == 2 else None,
        holdout=sum(part.holdout or 0 for part in split) if len(split) == 2 else None,
        targets=max(first.targets, second.targets),
        calls=first.calls + second.calls,
        shares=first.shares + second.shares,
        at_most=first.at_most or second.at_most,
        self_judged=first.self_judged + second.self_judged,
    )


# --- what is asked -----------------------------------------------------------------------------------------


class _Cases(Struct, frozen=True):
    suite: Suite
    cases: Callable[[], Iterable[Case]]


def _suites(store: Store, request: Request) -> Iterator[_Cases]:
    for word in request.suites:
        tier = word.removeprefix(BUILTIN)
        if tier not in TIERS:
            raise UsageError(f"{word!r} is no built-in suite: {', '.join(TIERS)}.")
        yield _builtin(tier)
    for word in request.stored:
        suite = stored_suite(store, word)
        if suite is None:
            raise UsageError(f"There is no suite {word!r} in the store.")
        yield _Cases(suite, partial(_cases, store, suite.content))


@lru_cache(maxsize=len(TIERS))
def _builtin(tier: str) -> _Cases:
    cases: list[Case] = []

    def keep(placed_case: Placed) -> None:
        cases.append(placed_case.case)

    loaded_suite = survey(builtin(tier), keep)
    return _Cases(replace(loaded_suite.suite, name=f"{BUILTIN}{tier}"), lambda: cases)


def _cases(store: Store, content: str) -> Iterator[Case]:
    return (stored_case.case for stored_case in store.cases(content))


class _TokenCount(Struct, gc=False):
    """The tokens of one case."""

    target: str | None
    repeats: int
    prompt_tokens: int
    judge_tokens: int
    """Tokens that judges see besides the answer."""
    asks: tuple[str | None, ...]
    """The judges that its graders call; None for those of the run."""


def _of_suite(store: Store, of: _Cases, request: Request, names: Names, prices: Prices) -> Estimate:
    loaded_suite, token_counts = _count_tokens(of, request)
    suite, indexer = loaded_suite.suite, loaded_suite.indexer
    settings = with_defaults(suite.defaults, request)
    near = names.near(suite.folder)
    judges = tuple(near.spec(word, request.judge_params, judged=False) for word in request.judges)
    words = request.targets or suite.defaults.targets or near.default
    resolve = partial(near.spec, judged=not judges and "judge" in loaded_suite.wanted.needs)
    specs = [resolve(word, request.params) for word in words]
    calls = _CallCounter(resolve, judges, request)
    for place, spec in enumerate(specs):
        index = loaded_suite.index(Seat(target=spec.name, first=place == 0, alone=len(specs) == 1))
        for position in index.chosen:
            calls.add(spec, token_counts[position])
    measures = Measures(store, suite, [call_sum.spec for call_sum in calls.all()])
    shares = [
        _share(call_sum, measures.of(call_sum.spec, judging=call_sum.judging), prices, settings.concurrency)
        for call_sum in calls.all()
    ]
    whole = indexer.index(suite.split_rule)
    splits = [whole.split_of(position) for position in whole.chosen]
    return Estimate(
        cases=len(splits),
        dev=None if whole.holdout is None else splits.count("dev"),
        holdout=None if whole.holdout is None else splits.count("holdout"),
        targets=len(specs),
        calls=sum(share.calls for share in shares if not share.judging),
        shares=tuple(shares),
        at_most=settings.reuse or settings.cache,
        budget_usd=settings.budget_usd,
        self_judged=tuple(calls.self_judged),
    )


_CountedSuite = tuple[Loaded, dict[int, _TokenCount]]
_TOKEN_CACHE: OrderedDict[bytes, _CountedSuite] = OrderedDict()
"""The suites read last, so that a large one is read only once while a user tries settings."""
_MOST_WEIGHED = 4
_GUARD = Lock()


def _count_tokens(of: _Cases, request: Request) -> _CountedSuite:
    """Returns the suite, split as the request says, and the tokens of each selected case by position."""
    settings = request.settings
    key = encode((of.suite.digest, of.suite.content, settings.selection, settings.repeats))
    with _GUARD:
        cached = _TOKEN_CACHE.get(key)
    loaded_suite, token_counts = cached or _read(of, request)
    with _GUARD:
        _TOKEN_CACHE[key] = loaded_suite, token_counts
        _TOKEN_CACHE.move_to_end(key)
        while len(_TOKEN_CACHE) > _MOST_WEIGHED:
            _TOKEN_CACHE.popitem(last=False)
    return as_asked(replace(loaded_suite, suite=of.suite, path=of.suite.title), request), token_counts


def _read(of: _Cases, request: Request) -> _CountedSuite:
    wishes, token_counts = Wishes(), dict[int, _TokenCount]()
    indexer = Indexer(request.settings.selection, request.settings.repeats)
    for position, case in enumerate(of.cases()):
        if indexer.add(case):
            graders = [bind(grader, GRADERS.get) for grader in case.assertions]
            wishes.add(case, graders)
            asks = tuple(name for grader in graders if "judge" in grader.wants() for name in grader.judges())
            token_counts[position] = _weight(case, asks, request)
    loaded_suite = Loaded(
        path=of.suite.title, suite=of.suite, indexer=indexer, wanted=wishes.wanted, problems=()
    )
    return loaded_suite, token_counts


def _weight(case: Case, asks: tuple[str | None, ...], request: Request) -> _TokenCount:
    return _TokenCount(
        target=case.target,
        repeats=0 if case.problems else repeats_of(case, request.settings.repeats),
        prompt_tokens=_tokens("".join(map(_text, case.input))),
        judge_tokens=_tokens(f"{case.criteria or ''}{case.expected or ''}") if asks else 0,
        asks=asks,
    )


def _text(message: Message) -> str:
    """Returns the text of a message; the tokens of images and other data cannot be told from a length."""
    files = [part.text or "" for part in message.parts if not isinstance(part, str)]
    return "".join((message.content, *files))


def _tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)


class _Sum(Struct):
    """All calls of one target or judge."""

    spec: TargetSpec
    judging: bool
    calls: int = 0
    prompt_tokens: int = 0
    answers: int = 0


class _CallCounter:
    """Adds up the calls of each target and judge."""

    def __init__(
        self, resolve: Callable[[str, Params], TargetSpec], judges: tuple[TargetSpec, ...], request: Request
    ) -> None:
        self._resolve = lru_cache(maxsize=None)(resolve)
        self._judges = judges
        self._request = request
        self._sums: dict[tuple[bytes, bool], _Sum] = {}
        self.self_judged: dict[str, None] = {}

    def all(self) -> list[_Sum]:
        return list(self._sums.values())

    def add(self, spec: TargetSpec, weight: _TokenCount) -> None:
        if weight.target is not None:
            spec = self._resolve(weight.target, self._request.params)
        answer = min(ANSWER_TOKENS, spec.params.max_tokens or ANSWER_TOKENS)
        self._count(spec, weight.repeats, weight.prompt_tokens, answer, judging=False)
        for name in weight.asks:
            calls = weight.repeats * self._request.settings.judge_repeats
            for judge in self._judging(spec, name):
                judge_tokens = weight.prompt_tokens + weight.judge_tokens + answer + JUDGING_TOKENS
                self._count(judge, calls, judge_tokens, ANSWER_TOKENS, judging=True)

    def _judging(self, spec: TargetSpec, name: str | None) -> tuple[TargetSpec, ...]:
        if self._judges:
            return self._judges
        if name is not None:
            return (self._resolve(name, Params()),)
        judge, itself = judge_of(spec)
        if itself:
            self.self_judged[spec.name] = None
        return (judge,)

    def _count(self, spec: TargetSpec, calls: int, prompt_tokens: int, answer: int, *, judging: bool) -> None:
        key = key_of(spec), judging
        call_sum = self._sums.get(key)
        if call_sum is None:
            call_sum = self._sums[key] = _Sum(spec, judging)
        call_sum.calls += calls
        call_sum.prompt_tokens += calls * prompt_tokens
        call_sum.answers += calls * answer


def _share(call_sum: _Sum, history: Measured, prices: Prices, concurrency: int) -> Share:
    usage = Usage(input_tokens=call_sum.prompt_tokens, output_tokens=call_sum.answers)
    if history.usage is not None:
        usage = history.usage.times(call_sum.calls)
    latency = 0.0 if get_kind(call_sum.spec).is_instant else history.latency_s
    places = max(1, min(places_of(call_sum.spec, concurrency), call_sum.calls))
    return Share(
        name=call_sum.spec.name,
        judging=call_sum.judging,
        calls=call_sum.calls,
        usage=usage,
        counted=history.usage is not None,
        cost_usd=cost_usd(usage, prices.in_budget(call_sum.spec)),
        tells_cost=tells_cost(call_sum.spec),
        seconds=None if latency is None else latency * call_sum.calls / places,
    )
