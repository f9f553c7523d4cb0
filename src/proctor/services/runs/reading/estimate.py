"""Estimates the calls, the cost and the duration of a request.

No request is sent and nothing is saved. Calls are counted in the suite; tokens and speed come from earlier
runs where there are any. A price or speed that is not known stays unknown.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial, reduce
from pathlib import Path
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects import DIALECTS
from proctor.dialects.shared.json_arrays import read_suite
from proctor.errors import SuiteError, UsageError
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Case, Message, Params, PromptTemplate, RunSlot, Settings, Suite, TargetSpec, Usage
from proctor.plan import CaseIndexer, count_repeats
from proctor.pricing import batch_price, cost_usd
from proctor.prompts.fill import fill_prompt
from proctor.prompts.templates import BadTemplate
from proctor.protocols import CaseAtLine, Store, SuiteSource
from proctor.services.runs.execution.target_pool import Prices, load_prices, max_concurrency_for, reports_cost
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.judge_choice import RequirementCollector, default_judge
from proctor.services.runs.planning.requested_runs import (
    check_variables,
    load_request_prompts,
    with_defaults,
)
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.runs.reading.estimate_record import (
    BYTES_PER_TOKEN,
    DEFAULT_ANSWER_TOKENS,
    Estimate,
    Share,
)
from proctor.services.runs.reading.history import RunHistory, TargetHistory, target_key
from proctor.services.runs.request import Request
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS, builtin_path
from proctor.services.suites.holdout_split import apply_split
from proctor.services.suites.load import LoadedSuite, load_source, load_suite
from proctor.services.suites.save_and_open import find_stored_suite
from proctor.targets import get_kind

JUDGE_PROMPT_TOKENS = 300
"""Tokens of a judge prompt besides prompt, criteria and answer."""


def estimate_request(
    store: Store, request: Request, environ: Mapping[str, str], *, folder: Path, start: Path | None = None
) -> Estimate:
    """Estimates the calls, cost and duration of a request.

    Args:
        store: has its suites and earlier runs.
        request: the request; its suites are built-in, in the store, or sources.
        environ: the environment variables that target names may refer to.
        folder: the folder of the store, which may have the user's own prices.
        start: where the search for the targets file starts; None is the working directory.

    Raises:
        SuiteError: a source, a prompt or the targets file is wrong, cases have no value for a variable of a
            prompt, or a variable that a target names is not set.
        UsageError: there is no such suite, target or prompt.
    """
    context = PlanningContext(store, environ, lambda _event: None, None)
    prompts = load_request_prompts(request, context)
    means = _Means(TargetNames(environ, start), load_prices(environ, folder), prompts)
    parts = [_estimate_suite(store, suite, request, means) for suite in _find_suites(store, request)]
    if not parts:
        raise UsageError("Choose a suite.")
    return reduce(_add_estimates, parts)


def _add_estimates(first: Estimate, second: Estimate) -> Estimate:
    split = [part for part in (first, second) if part.dev is not None]
    return replace(
        first,
        cases=first.cases + second.cases,
        dev=sum(part.dev or 0 for part in split) if len(split) == 2 else None,
        holdout=sum(part.holdout or 0 for part in split) if len(split) == 2 else None,
        targets=max(first.targets, second.targets),
        prompts=max(first.prompts, second.prompts),
        calls=first.calls + second.calls,
        shares=first.shares + second.shares,
        at_most=first.at_most or second.at_most,
        self_judged=first.self_judged + second.self_judged,
    )


# --- what is asked -----------------------------------------------------------------------------------------


class _SuiteCases(Struct, frozen=True):
    suite: Suite
    cases: Callable[[], Iterable[Case]]


def _find_suites(store: Store, request: Request) -> Iterator[_SuiteCases]:
    for word in request.suites:
        tier = word.removeprefix(BUILTIN_PREFIX)
        if tier not in TIERS:
            raise UsageError(f"{word!r} is not a built-in suite. The built-in suites are {', '.join(TIERS)}.")
        yield _load_builtin(tier)
    for source in request.sources:
        yield _load_source(source)
    for word in request.stored_names:
        suite = find_stored_suite(store, word)
        if suite is None:
            raise UsageError(f"There is no suite {word!r} in the store.")
        yield _SuiteCases(suite, partial(_read_cases, store, suite.content))


@lru_cache(maxsize=len(TIERS))
def _load_builtin(tier: str) -> _SuiteCases:
    cases: list[Case] = []
    loaded_suite = load_suite(
        builtin_path(tier), inspect=lambda located_case: cases.append(located_case.case)
    )
    return _SuiteCases(replace(loaded_suite.suite, name=f"{BUILTIN_PREFIX}{tier}"), lambda: cases)


def _load_source(source: SuiteSource) -> _SuiteCases:
    loaded_suite = load_source(source)
    if loaded_suite.errors:
        raise SuiteError(loaded_suite.errors)
    suite = loaded_suite.suite

    def read_again() -> Iterator[Case]:  # not to hold all cases of a large suite
        items = read_suite(DIALECTS.get(suite.dialect), source)
        return (item.case for item in items if isinstance(item, CaseAtLine))

    return _SuiteCases(suite, read_again)


def _read_cases(store: Store, content: str) -> Iterator[Case]:
    return (stored_case.case for stored_case in store.cases(content))


class _TokenCount(Struct, gc=False):
    """The tokens of one case."""

    target: str | None
    repeats: int
    prompt_tokens: int
    judge_tokens: int
    """Tokens that judges see besides the answer."""
    judges: tuple[str | None, ...]
    """The judges that its graders call; None for those of the run."""


class _Means(Struct, frozen=True):
    """What all suites of a request share."""

    names: TargetNames
    prices: Prices
    prompts: tuple[PromptTemplate, ...]
    """Those that the user gave; empty for those of each suite."""


def _estimate_suite(store: Store, of: _SuiteCases, request: Request, means: _Means) -> Estimate:
    loaded_suite, _ = _count_tokens(of, request, None)
    suite, indexer, names = loaded_suite.suite, loaded_suite.indexer, means.names
    prompts = means.prompts or suite.defaults.prompts
    check_variables(loaded_suite, prompts, of_suite=not means.prompts)
    settings = with_defaults(suite.defaults, request)
    near = names.for_folder(suite.folder)
    judges = tuple(near.get_spec(word, request.judge_params, judged=False) for word in request.judges)
    words = request.targets or suite.defaults.targets or near.default
    resolve = partial(near.get_spec, judged=not judges and "judge" in loaded_suite.required.needs)
    specs = [resolve(word, request.params) for word in words]
    calls = _CallCounter(resolve, judges, request)
    for place, prompt in enumerate(prompts or (None,)):
        _, token_counts = _count_tokens(of, request, prompt)
        for number, spec in enumerate(specs):
            slot = RunSlot(
                target=spec.name,
                prompt=None if means.prompts or prompt is None else prompt.name,
                first_prompt=place == 0,
                first=number == 0,
                alone=len(specs) == 1,
            )
            for position in loaded_suite.index(slot).positions:
                calls.add(spec, token_counts[position])
    measures = RunHistory(store, suite, [call_sum.spec for call_sum in calls.sums()])
    shares = [
        _make_share(
            call_sum,
            measures.get(call_sum.spec, judging=call_sum.judging),
            means.prices,
            settings,
        )
        for call_sum in calls.sums()
    ]
    whole = indexer.build(suite.split_rule)
    held_out_count = None if whole.holdout is None else whole.count_held_out()
    return Estimate(
        cases=len(whole.positions),
        dev=None if held_out_count is None else len(whole.positions) - held_out_count,
        holdout=held_out_count,
        targets=len(specs),
        prompts=len(prompts),
        calls=sum(share.calls for share in shares if not share.judging),
        shares=tuple(shares),
        at_most=settings.reuse or settings.cache,
        budget_usd=settings.budget_usd,
        self_judged=tuple(calls.self_judged),
    )


_CountedSuite = tuple[LoadedSuite, dict[int, _TokenCount]]
_TOKEN_CACHE: OrderedDict[bytes, _CountedSuite] = OrderedDict()
"""The suites read last, so that a large one is read only once while a user tries settings."""
_MAX_CACHED_SUITES = 8
"""Counts a suite once for each prompt."""
_CACHE_LOCK = Lock()


def _count_tokens(of: _SuiteCases, request: Request, prompt: PromptTemplate | None) -> _CountedSuite:
    """Returns the suite, split as the request says, and the tokens of each selected case by position.

    With a prompt, every case that is run with it must have its variables.
    """
    settings = request.settings
    key = encode((of.suite.digest, of.suite.content, settings.selection, settings.repeats, prompt))
    with _CACHE_LOCK:
        cached = _TOKEN_CACHE.get(key)
    loaded_suite, token_counts = cached or _read_suite(of, request, prompt)
    with _CACHE_LOCK:
        _TOKEN_CACHE[key] = loaded_suite, token_counts
        _TOKEN_CACHE.move_to_end(key)
        while len(_TOKEN_CACHE) > _MAX_CACHED_SUITES:
            _TOKEN_CACHE.popitem(last=False)
    return apply_split(replace(loaded_suite, suite=of.suite, path=of.suite.title), request), token_counts


def _read_suite(of: _SuiteCases, request: Request, prompt: PromptTemplate | None) -> _CountedSuite:
    wishes, token_counts = RequirementCollector(), dict[int, _TokenCount]()
    indexer = CaseIndexer(request.settings.selection, request.settings.repeats)
    for position, case in enumerate(of.cases()):
        if indexer.add(case):
            graders = [build_grader(grader, GRADERS.get) for grader in case.assertions]
            wishes.add(case, graders)
            asks = tuple(
                name for grader in graders if "judge" in grader.requirements() for name in grader.judges()
            )
            token_counts[position] = _TokenCount(
                target=case.target,
                repeats=0 if case.problems else count_repeats(case, request.settings.repeats),
                prompt_tokens=_estimate_tokens(_sent_texts(case, prompt)),
                judge_tokens=_estimate_tokens(f"{case.criteria or ''}{case.expected or ''}") if asks else 0,
                judges=asks,
            )
    loaded_suite = LoadedSuite(
        path=of.suite.title, suite=of.suite, indexer=indexer, required=wishes.required, problems=()
    )
    return loaded_suite, token_counts


def _fill(case: Case, prompt: PromptTemplate | None) -> tuple[Message, ...]:
    """Returns the messages for a case; its own if it lacks variables, and so is not run with the prompt."""
    if prompt is None or case.problems:
        return case.input
    try:
        return fill_prompt(prompt, case)
    except BadTemplate:
        return case.input


def _sent_texts(case: Case, prompt: PromptTemplate | None) -> str:
    """Returns all that is sent for a case: its prompt, and with choices also once with each of them."""
    text = "".join(map(_sent_text, _fill(case, prompt)))
    choices = () if case.form is None else case.form.choices
    return text * (len(choices) + 1) + "".join(choices)


def _sent_text(message: Message) -> str:
    """Returns the text of a message; the tokens of images and other data cannot be told from a length."""
    files = [part.text or "" for part in message.parts if not isinstance(part, str)]
    return "".join((message.content, *files))


def _estimate_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


class _CallSum(Struct):
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
        self._sums: dict[tuple[bytes, bool], _CallSum] = {}
        self.self_judged: dict[str, None] = {}

    def sums(self) -> list[_CallSum]:
        return list(self._sums.values())

    def add(self, spec: TargetSpec, weight: _TokenCount) -> None:
        if weight.target is not None:
            spec = self._resolve(weight.target, self._request.params)
        answer = min(DEFAULT_ANSWER_TOKENS, spec.params.max_tokens or DEFAULT_ANSWER_TOKENS)
        self._count(spec, weight.repeats, weight.prompt_tokens, answer, judging=False)
        for name in weight.judges:
            calls = weight.repeats * self._request.settings.judge_repeats
            for judge in self._judges_for(spec, name):
                judge_tokens = weight.prompt_tokens + weight.judge_tokens + answer + JUDGE_PROMPT_TOKENS
                self._count(judge, calls, judge_tokens, DEFAULT_ANSWER_TOKENS, judging=True)

    def _judges_for(self, spec: TargetSpec, name: str | None) -> tuple[TargetSpec, ...]:
        if self._judges:
            return self._judges
        if name is not None:
            return (self._resolve(name, Params()),)
        judge, itself = default_judge(spec)
        if itself:
            self.self_judged[spec.name] = None
        return (judge,)

    def _count(self, spec: TargetSpec, calls: int, prompt_tokens: int, answer: int, *, judging: bool) -> None:
        key = target_key(spec), judging
        call_sum = self._sums.get(key)
        if call_sum is None:
            call_sum = self._sums[key] = _CallSum(spec, judging)
        call_sum.calls += calls
        call_sum.prompt_tokens += calls * prompt_tokens
        call_sum.answers += calls * answer


def _make_share(call_sum: _CallSum, history: TargetHistory, prices: Prices, settings: Settings) -> Share:
    """Returns the estimate of the calls of a target or judge; the duration of a batch is unknown."""
    usage = Usage(input_tokens=call_sum.prompt_tokens, output_tokens=call_sum.answers)
    if history.usage is not None:
        usage = history.usage.times(call_sum.calls)
    latency = 0.0 if get_kind(call_sum.spec).is_instant else history.latency_s
    places = max(1, min(max_concurrency_for(call_sum.spec, settings.concurrency), call_sum.calls))
    price, is_batch = prices.get_for_budget(call_sum.spec), settings.is_batch and not call_sum.judging
    if is_batch:
        price, latency = None if price is None else batch_price(price), None
    return Share(
        name=call_sum.spec.name,
        judging=call_sum.judging,
        calls=call_sum.calls,
        usage=usage,
        is_measured=history.usage is not None,
        cost_usd=cost_usd(usage, price, 1.0 if is_batch else prices.get_tier_share(call_sum.spec)),
        reports_cost=reports_cost(call_sum.spec),
        seconds=None if latency is None else latency * call_sum.calls / places,
    )
