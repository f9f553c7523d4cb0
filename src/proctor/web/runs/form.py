"""What somebody chose on a page or by the API, checked, to a request and to the words of a command.

Nothing that is typed becomes a path, a program or an address: a suite is a built-in one or one in the store,
and whoever is asked is one of `offers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Final

from msgspec import Struct

from proctor.comparison.outcomes import Split
from proctor.errors import ProctorError, UsageError
from proctor.model import Params, Selection, Settings, Suite
from proctor.protocols import Store
from proctor.services.runs.request import Request
from proctor.services.suites.builtin_suites import BUILTIN, TIERS
from proctor.web.runs.allowed_targets import SPLITS, Project, Usual, check_named, offer_of

_WHOLE = re.compile(r"[+-]?[0-9]{1,12}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})(e[+-]?[0-9]{1,2})?", re.IGNORECASE)
_TAG_LENGTH = 200
_MOST_NAMED = 50
"""So many targets, judges and tags are taken at once."""


class Range(Struct, frozen=True):
    """The numbers that a field takes, which are those of the command line's flag."""

    flag: str
    whole: bool
    usual: float | None = None
    """What counts where nothing is given."""
    least: float | None = None
    above: bool = False
    """`least` itself is too little."""
    most: float | None = None
    below: bool = False
    """`most` itself is too much."""

    @property
    def words(self) -> str:
        """What is to be given, in words."""
        kind = "a whole number" if self.whole else "a number"
        if self.least is None:
            return kind
        if self.most is not None:
            return f"{kind} from {self.least:g} to {'below ' if self.below else ''}{self.most:g}"
        return f"{kind} above {self.least:g}" if self.above else f"{kind}, {self.least:g} or more"

    def has(self, value: float) -> bool:
        """Whether it takes a number."""
        low = self.least is not None and (value <= self.least if self.above else value < self.least)
        high = self.most is not None and (value >= self.most if self.below else value > self.most)
        return isfinite(value) and not low and not high


RANGES: Final[dict[str, Range]] = {
    "holdout": Range("holdout", whole=False, least=0, most=1, below=True),
    "repeats": Range("repeat", whole=True, usual=1, least=1),
    "concurrency": Range("concurrency", whole=True, usual=32, least=1),
    "budget_usd": Range("budget-usd", whole=False, least=0, above=True),
    "temperature": Range("temperature", whole=False, usual=0, least=0),
    "seed": Range("seed", whole=True, usual=42),
    "max_tokens": Range("max-tokens", whole=True, least=1),
    "threshold": Range("threshold", whole=False, least=0, most=1),
    "min_pass_rate": Range("min-pass-rate", whole=False, least=0, most=1),
}
"""Every field with a number."""
FIELDS: Final = ("suite", "version", "target", "typed", "judge", "split", *RANGES, "reuse", "tag", "all_tag")
"""Every field."""

Given = Mapping[str, Sequence[str]]
"""The values of each field, as texts."""


class WrongChoices(UsageError):
    """Choices that cannot be run; knows the sentence of each field that is wrong."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        super().__init__(" ".join(wrong.values()))
        self.wrong = dict(wrong)


def usual_number(field: str, usual: Usual) -> float | None:
    """The number of a field where none is given."""
    of_project = usual.number(RANGES[field].flag)
    return RANGES[field].usual if of_project is None else of_project


class Choices(Struct, frozen=True, kw_only=True):
    """What is to be run, checked."""

    suite: str
    """Its name."""
    version: str | None
    """None for a built-in suite."""
    targets: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    split: Split | None = None
    numbers: dict[str, float] = {}
    """Those of `RANGES` that were given and are not what they are anyway."""
    reuse: bool | None = None
    tags: tuple[str, ...] = ()
    all_tags: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """What comes after `proctor run`; each flag with its value, whatever that begins with."""
        words = [self.suite if self.version is None else f"--saved={self.suite}@{self.version}"]
        words += [f"--target={name}" for name in self.targets]
        words += [f"--judge={name}" for name in self.judges]
        words += [] if self.split is None else [f"--split={self.split}"]
        words += [f"--tag={tag}" for tag in self.tags]
        words += [f"--all-tag={tag}" for tag in self.all_tags]
        words += [f"--{RANGES[name].flag}={value:.12g}" for name, value in self.numbers.items()]
        words += [] if self.reuse is None else ["--reuse" if self.reuse else "--no-reuse"]
        return words

    def request(self, project: Project) -> Request:
        """What the command line would make of those words."""
        usual = project.usual
        numbers = {name: self.numbers.get(name, usual_number(name, usual)) for name in RANGES}
        reuse = usual.value("reuse", bool) if self.reuse is None else self.reuse
        whole = {
            name: int(value) for name, value in numbers.items() if value is not None and RANGES[name].whole
        }
        given = {
            name for name in ("concurrency", "budget_usd") if usual.number(RANGES[name].flag) is not None
        }
        settings = Settings(
            selection=self._selection(usual),
            repeats=whole["repeats"],
            concurrency=whole["concurrency"],
            budget_usd=numbers["budget_usd"],
            judge_repeats=usual.value("judge-repeat", int) or 1,
            reuse=bool(reuse),
            cache=bool(usual.value("cache", bool)),
        )
        return Request(
            suites=() if self.version else (self.suite,),
            stored=(f"{self.suite}@{self.version}",) if self.version else (),
            targets=self.targets or usual.texts("target", "model"),
            judges=self.judges or usual.texts("judge"),
            params=Params(
                temperature=numbers["temperature"], seed=whole["seed"], max_tokens=whole.get("max_tokens")
            ),
            settings=settings,
            explicit=frozenset({*self.numbers, *given, *({"reuse"} if reuse is not None else ())}),
            config=project.config,
            flags=frozenset({"--holdout"} & {f"--{name}" for name in self.numbers}),
            holdout=numbers["holdout"],
            split_method=next(
                (one for one in ("rank", "shuffle") if one in usual.texts("split-method")), None
            ),
        )

    def _selection(self, usual: Usual) -> Selection:
        return Selection(
            split=self.split or usual.split,
            tags=self.tags or usual.texts("tag"),
            all_tags=self.all_tags or usual.texts("all-tag"),
            exclude_tags=usual.texts("exclude-tag"),
            categories=usual.texts("category"),
            ids=usual.texts("id"),
            limit=usual.value("limit", int),
        )


def chosen(store: Store, given: Given, project: Project, *, whole: bool = True) -> Choices:
    """What was chosen, checked.

    Args:
        store: where suites are.
        given: the values of each of `FIELDS`; what is empty is not chosen.
        project: where it is run.
        whole: it is to be run, so that somebody must be asked.

    Raises:
        WrongChoices: something cannot be; it knows what.
    """
    checking = _Checking(given, project)
    suite = checking.suite(store)
    targets = dict.fromkeys((*checking.named("target"), *checking.named("typed")))
    checking.somebody(suite, targets, needed=whole)
    judges = checking.named("judge")
    numbers = {name: value for name in RANGES if (value := checking.number(name)) is not None}
    split, reuse, tags, all_tags = checking.split(), checking.reuse(), checking.tags(), checking.all_tags()
    checking.parts(split, numbers.get("holdout", usual_number("holdout", project.usual)))
    if checking.wrong:
        raise WrongChoices(checking.wrong)
    return Choices(
        suite=checking.tier() if suite is None else suite.name,
        version=None if suite is None else suite.version,
        targets=tuple(targets),
        judges=judges,
        split=split,
        numbers=numbers,
        reuse=reuse,
        tags=tags,
        all_tags=all_tags,
    )


class _Checking:
    """Checks what was chosen, field by field, and remembers what is wrong."""

    def __init__(self, given: Given, project: Project) -> None:
        self._given = given
        self._project = project
        self._check = partial(check_named, offer=offer_of(project), environ=project.environ)
        self.wrong: dict[str, str] = {}

    def _text(self, field: str) -> str:
        return next((value.strip() for value in reversed(self._given.get(field, ()))), "")

    def suite(self, store: Store) -> Suite | None:
        """The suite in the store; None for a built-in one, or where it is wrong."""
        name = next(iter(reversed(self._given.get("suite", ()))), "")
        version = self._text("version")
        if not name:
            self.wrong["suite"] = "Choose a suite."
        tier = name.removeprefix(BUILTIN)
        if not name or (tier in TIERS and (tier != name or store.suite(name) is None)):
            return None
        newest = store.suite(name)
        if newest is None or newest.version is None:
            self.wrong["suite"] = (
                f"There is no suite {name[:80]!r} here. Save it on the page Create Suite first."
            )
            return None
        found = store.suite(name, version) if re.fullmatch(r"v[0-9]{1,9}", version) else None
        if version and found is None:
            said = f"{name[:80]!r} has no version {version[:20]!r}; the one saved last is {newest.version}."
            self.wrong["version"] = said
        return found or newest

    def tier(self) -> str:
        """The word for the built-in suite."""
        return f"{BUILTIN}{self._given['suite'][-1].removeprefix(BUILTIN)}"

    def named(self, field: str) -> tuple[str, ...]:
        """Those who are named in a field, if each of them may be."""
        words = tuple(dict.fromkeys(filter(None, map(str.strip, self._given.get(field, ())))))
        if len(words) > _MOST_NAMED:
            self.wrong[field] = f"Choose at most {_MOST_NAMED}."
            return ()
        for word in words:
            try:
                self._check(word)
            except UsageError as error:
                self.wrong.setdefault(field, str(error))
        return words

    def somebody(self, suite: Suite | None, targets: Mapping[str, None], *, needed: bool) -> None:
        """Make sure that somebody is asked, and may be, where nobody was chosen."""
        if targets or self._project.usual.texts("target", "model"):
            return
        try:
            own = () if suite is None else suite.defaults.targets
            if needed and not own and not self._project.names.default:
                self.wrong.setdefault("target", "Choose at least one target.")
            for word in own:
                self._check(word)
        except ProctorError as error:
            self.wrong.setdefault("target", str(error))

    def number(self, field: str) -> float | None:
        """The number of a field; None where none is given, or what counts anyway."""
        text, taken = self._text(field), RANGES[field]
        if not text:
            return None
        form = _WHOLE if taken.whole else _DECIMAL
        value = float(text) if form.fullmatch(text) else float("nan")
        if not taken.has(value):
            self.wrong[field] = f"{text[:40]!r} is not {taken.words}."
            return None
        return None if value == usual_number(field, self._project.usual) else value

    def split(self) -> Split | None:
        """The split, where it is another than the usual one."""
        text, usual = self._text("split"), self._project.usual.split
        found = next((one for one in SPLITS if one == (text or usual)), None)
        if found is None:
            self.wrong["split"] = f"{text[:40]!r} is none of {', '.join(SPLITS)}."
        return None if found == usual else found

    def parts(self, split: Split | None, holdout: float | None) -> None:
        """Make sure that there are parts to choose from, where one of them is chosen."""
        if holdout == 0 and (split or self._project.usual.split) != "all":
            self.wrong["split"] = "Nothing is held out, so there are no parts. Choose dev and holdout."

    def reuse(self) -> bool | None:
        """Whether earlier answers are taken over; None leaves it to the suite."""
        text = self._text("reuse")
        if text not in ("", "yes", "no"):
            self.wrong["reuse"] = f"{text[:40]!r} is neither yes nor no."
        return {"yes": True, "no": False}.get(text)

    def tags(self) -> tuple[str, ...]:
        """The tags; several in one value stand apart by commas."""
        return self._tags("tag", [tag for value in self._given.get("tag", ()) for tag in value.split(",")])

    def all_tags(self) -> tuple[str, ...]:
        """Words of which a case must have all; any of the tags in a word will do."""
        return self._tags("all_tag", self._given.get("all_tag", ()))

    def _tags(self, field: str, words: Sequence[str]) -> tuple[str, ...]:
        tags = tuple(dict.fromkeys(filter(None, map(str.strip, words))))
        if len(tags) > _MOST_NAMED or any(len(tag) > _TAG_LENGTH or not tag.isprintable() for tag in tags):
            self.wrong[field] = f"Give at most {_MOST_NAMED} tags, each of one line."
            return ()
        return tags
