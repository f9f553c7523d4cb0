"""How many calls a request would make, about what they would cost, and about how long they would take.

Nobody is asked and nothing is saved. What can be counted is, in the suite; what can be measured was, in
earlier runs; a price or a speed that is not known stays unknown.
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
from proctor.services.runs.planning.jobs import with_defaults
from proctor.services.runs.planning.judge_choice import Wishes, judge_of
from proctor.services.runs.planning.target_names import Names
from proctor.services.runs.reading.estimate_record import ANSWER_TOKENS, BYTES_A_TOKEN, Estimate, Share
from proctor.services.runs.reading.history import Measured, Measures, key_of
from proctor.services.runs.request import Request
from proctor.services.suites.builtin_suites import BUILTIN, TIERS, builtin
from proctor.services.suites.load import Loaded, survey
from proctor.services.suites.save_and_open import stored_suite
from proctor.services.suites.split import as_asked

JUDGING_TOKENS = 300
"""What a judge is told besides question, criteria and answer."""
_AT_ONCE = frozenset({"echo", "mock", "replay", "scripted"})
"""Kinds of target that take no time worth telling."""


def estimated(
    store: Store, request: Request, environ: Mapping[str, str], *, folder: Path, start: Path | None = None
) -> Estimate:
    """What a request would come to.

    Args:
        store: where its suites and earlier runs are.
        request: what is asked for; its suites are built-in ones or in the store.
        environ: what names of targets may depend on.
        folder: where the store lies; a user's own prices are beside it.
        start: where the targets file is looked for; None is the working directory.

    Raises:
        SuiteError: the targets file is wrong, or a variable that a target names is not set.
        UsageError: there is no such suite or target.
    """
    prices = load_prices(environ, folder)
    names = Names(environ, start)
    parts = [_of_suite(store, one, request, names, prices) for one in _suites(store, request)]
    if not parts:
        raise UsageError("Choose a suite.")
    whole = parts[0]
    for part in parts[1:]:
        whole = _together(whole, part)
    return whole


def _together(one: Estimate, other: Estimate) -> Estimate:
    split = [part for part in (one, other) if part.dev is not None]
    return replace(
        one,
        cases=one.cases + other.cases,
        dev=sum(part.dev or 0 for part in split) if len(split) == 2 else None,
        holdout=sum(part.holdout or 0 for part in split) if len(split) == 2 else None,
        targets=max(one.targets, other.targets),
        calls=one.calls + other.calls,
        shares=one.shares + other.shares,
        at_most=one.at_most or other.at_most,
        self_judged=one.self_judged + other.self_judged,
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

    def keep(placed: Placed) -> None:
        cases.append(placed.case)

    loaded = survey(builtin(tier), keep)
    return _Cases(replace(loaded.suite, name=f"{BUILTIN}{tier}"), lambda: cases)


def _cases(store: Store, content: str) -> Iterator[Case]:
    return (stored.case for stored in store.cases(content))


class _Weight(Struct, gc=False):
    """What one case weighs, in tokens."""

    target: str | None
    repeats: int
    sent: int
    judged: int
    """What judges are shown besides the answer."""
    asks: tuple[str | None, ...]
    """The judges that its graders ask; None for those of the run."""


def _of_suite(store: Store, of: _Cases, request: Request, names: Names, prices: Prices) -> Estimate:
    loaded, weights = _weighed(of, request)
    suite, indexer = loaded.suite, loaded.indexer
    settings = with_defaults(suite.defaults, request)
    near = names.near(suite.folder)
    judges = tuple(near.spec(word, request.judge_params, judged=False) for word in request.judges)
    words = request.targets or suite.defaults.targets or near.default
    spec_of = partial(near.spec, judged=not judges and "judge" in loaded.wanted.needs)
    specs = [spec_of(word, request.params) for word in words]
    asked = _Asked(spec_of, judges, request)
    for place, spec in enumerate(specs):
        index = loaded.index(Seat(target=spec.name, first=place == 0, alone=len(specs) == 1))
        for position in index.chosen:
            asked.add(spec, weights[position])
    measures = Measures(store, suite, [one.spec for one in asked.all()])
    shares = [
        _share(one, measures.of(one.spec, judging=one.judging), prices, settings.concurrency)
        for one in asked.all()
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
        self_judged=tuple(asked.self_judged),
    )


_Weighed = tuple[Loaded, dict[int, _Weight]]
_WEIGHED: OrderedDict[bytes, _Weighed] = OrderedDict()
"""The suites that were read last: whoever tries this and that reads a large one only once."""
_MOST_WEIGHED = 4
_GUARD = Lock()


def _weighed(of: _Cases, request: Request) -> _Weighed:
    """The suite, divided as the request says, and what each of its selected cases weighs, by position."""
    settings = request.settings
    key = encode((of.suite.digest, of.suite.content, settings.selection, settings.repeats))
    with _GUARD:
        known = _WEIGHED.get(key)
    loaded, weights = known or _read(of, request)
    with _GUARD:
        _WEIGHED[key] = loaded, weights
        _WEIGHED.move_to_end(key)
        while len(_WEIGHED) > _MOST_WEIGHED:
            _WEIGHED.popitem(last=False)
    return as_asked(replace(loaded, suite=of.suite, path=of.suite.title), request), weights


def _read(of: _Cases, request: Request) -> _Weighed:
    wishes, weights = Wishes(), dict[int, _Weight]()
    indexer = Indexer(request.settings.selection, request.settings.repeats)
    for position, case in enumerate(of.cases()):
        if indexer.add(case):
            graders = [bind(one, GRADERS.get) for one in case.assertions]
            wishes.add(case, graders)
            asks = tuple(name for one in graders if "judge" in one.wants() for name in one.judges())
            weights[position] = _weight(case, asks, request)
    loaded = Loaded(path=of.suite.title, suite=of.suite, indexer=indexer, wanted=wishes.wanted, problems=())
    return loaded, weights


def _weight(case: Case, asks: tuple[str | None, ...], request: Request) -> _Weight:
    return _Weight(
        target=case.target,
        repeats=0 if case.problems else repeats_of(case, request.settings.repeats),
        sent=_tokens("".join(map(_text, case.input))),
        judged=_tokens(f"{case.criteria or ''}{case.expected or ''}") if asks else 0,
        asks=asks,
    )


def _text(message: Message) -> str:
    """What is sent of a message; of pictures and other data no length tells how many tokens they are."""
    files = [part.text or "" for part in message.parts if not isinstance(part, str)]
    return "".join((message.content, *files))


def _tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)


class _Sum(Struct):
    """What one target or judge is asked in all."""

    spec: TargetSpec
    judging: bool
    calls: int = 0
    sent: int = 0
    answers: int = 0


class _Asked:
    """Adds up who is asked how much."""

    def __init__(
        self, spec_of: Callable[[str, Params], TargetSpec], judges: tuple[TargetSpec, ...], request: Request
    ) -> None:
        self._spec_of = lru_cache(maxsize=None)(spec_of)
        self._judges = judges
        self._request = request
        self._sums: dict[tuple[bytes, bool], _Sum] = {}
        self.self_judged: dict[str, None] = {}

    def all(self) -> list[_Sum]:
        return list(self._sums.values())

    def add(self, spec: TargetSpec, weight: _Weight) -> None:
        if weight.target is not None:
            spec = self._spec_of(weight.target, self._request.params)
        answer = min(ANSWER_TOKENS, spec.params.max_tokens or ANSWER_TOKENS)
        self._count(spec, weight.repeats, weight.sent, answer, judging=False)
        for name in weight.asks:
            calls = weight.repeats * self._request.settings.judge_repeats
            for judge in self._judging(spec, name):
                shown = weight.sent + weight.judged + answer + JUDGING_TOKENS
                self._count(judge, calls, shown, ANSWER_TOKENS, judging=True)

    def _judging(self, spec: TargetSpec, name: str | None) -> tuple[TargetSpec, ...]:
        if self._judges:
            return self._judges
        if name is not None:
            return (self._spec_of(name, Params()),)
        judge, itself = judge_of(spec)
        if itself:
            self.self_judged[spec.name] = None
        return (judge,)

    def _count(self, spec: TargetSpec, calls: int, sent: int, answer: int, *, judging: bool) -> None:
        key = key_of(spec), judging
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sum(spec, judging)
        found.calls += calls
        found.sent += calls * sent
        found.answers += calls * answer


def _share(asked: _Sum, measured: Measured, prices: Prices, concurrency: int) -> Share:
    usage = Usage(input_tokens=asked.sent, output_tokens=asked.answers)
    if measured.usage is not None:
        usage = measured.usage.times(asked.calls)
    latency = 0.0 if asked.spec.kind in _AT_ONCE else measured.latency_s
    places = max(1, min(places_of(asked.spec, concurrency), asked.calls))
    return Share(
        name=asked.spec.name,
        judging=asked.judging,
        calls=asked.calls,
        usage=usage,
        counted=measured.usage is not None,
        cost_usd=cost_usd(usage, prices.in_budget(asked.spec)),
        tells_cost=tells_cost(asked.spec),
        seconds=None if latency is None else latency * asked.calls / places,
    )
