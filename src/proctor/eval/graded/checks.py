"""Checks of one answer: whether it passes, and why.

Objects, numbers, hedges and patterns are found by the functions of `proctor.graders`; the reasons are the
words of fieldkit.eval, which the graders do not have.

Every record is frozen and every function pure, so any number of threads may use them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal, get_args

from proctor.eval.jsonl_rows import parse_number
from proctor.graders.lexicons.hedging import HEDGE_PHRASES, find_hedge
from proctor.graders.numbers.numerals import find_first_digits, is_near

CheckKind = Literal["substring", "json_keys", "regex", "honesty", "numeric"]
CHECK_KINDS: tuple[str, ...] = get_args(CheckKind)
"""The kinds of check."""

_TEXT_FIELDS = ("any", "all", "keys")
"""The fields of a check that are lists of texts."""
_PLACEHOLDER = re.compile(r"\{\{([^{}\n]{1,200})\}\}")
_FLAT_OBJECT = re.compile(r"\{[^{}]*\}")
_TAIL_LENGTHS = (100_000, 4_000)
"""Characters at the end that are searched for JSON if the whole text has too many opening braces."""


@dataclass(frozen=True)
class CheckSpec:
    """One check of an answer.

    Raises:
        ValueError: `kind` is none of `CHECK_KINDS`.
    """

    kind: CheckKind
    any: tuple[str, ...] = ()
    """`substring`: one of these must be there, ignoring case."""
    all: tuple[str, ...] = ()
    """`substring`: all of these must be there; `regex`: patterns that must all be found."""
    keys: tuple[str, ...] = ()
    """`json_keys`: the keys that the last JSON object of the answer must have at its top level."""
    value: float | None = None
    """`numeric`: what the first number of the answer must be."""
    tolerance: float = 0.0
    """`numeric`: the largest difference, in the unit of the number."""

    def __post_init__(self) -> None:
        if self.kind not in CHECK_KINDS:
            raise ValueError(f"check.kind must be one of {', '.join(CHECK_KINDS)}, not {self.kind!r}.")

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> CheckSpec:
        """Parses a JSON object as a check; unknown keys are ignored.

        A text where a list belongs is a list of one; null and an empty text are an empty list.

        Raises:
            ValueError: `kind` is not one of `CHECK_KINDS`, a list holds more than texts, or the
                tolerance is not a finite number.
        """
        if not isinstance(d.get("kind"), str):
            raise ValueError(f"check.kind must be a string, got {d.get('kind')!r}.")
        texts = {name: parse_texts(d.get(name), f"check.{name}") for name in _TEXT_FIELDS}
        tolerance = 0.0 if d.get("tolerance") is None else parse_number(d["tolerance"], float)
        if tolerance is None or not isfinite(tolerance):
            raise ValueError(f"check.tolerance must be a finite number, not {d['tolerance']!r}.")
        return cls(d["kind"], **texts, value=d.get("value"), tolerance=tolerance)

    def with_substitutions(self, substitutions: Mapping[str, Any]) -> CheckSpec:
        """Returns the check with `{{name}}` replaced in `any`, `all` and `keys`, one name after the other.

        A name that has no substitution stays as it is; see `placeholders`.
        """

        def substitute(text: str) -> str:
            for name, value in substitutions.items():
                text = text.replace("{{" + name + "}}", str(value))
            return text

        texts: dict[str, Any] = {name: tuple(map(substitute, getattr(self, name))) for name in _TEXT_FIELDS}
        return replace(self, **texts)

    def placeholders(self) -> tuple[str, ...]:
        """Returns the names whose `{{name}}` is left in `any`, `all` or `keys`, each once."""
        texts = (*self.any, *self.all, *self.keys)
        return tuple(dict.fromkeys(name for text in texts for name in _PLACEHOLDER.findall(text)))


@dataclass(frozen=True)
class Rubric:
    """Several checks of one answer, which must all pass.

    Raises:
        ValueError: there is no check.
    """

    checks: tuple[CheckSpec, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", tuple(self.checks))
        if not self.checks:
            raise ValueError("Rubric.checks must contain at least one CheckSpec.")

    @classmethod
    def single(cls, spec: CheckSpec) -> Rubric:
        """Returns a rubric of one check."""
        return cls((spec,))

    def with_substitutions(self, substitutions: Mapping[str, Any]) -> Rubric:
        """Returns the rubric with `CheckSpec.with_substitutions` applied to every check."""
        return Rubric(tuple(check.with_substitutions(substitutions) for check in self.checks))

    def placeholders(self) -> tuple[str, ...]:
        """Returns the names whose `{{name}}` is left in a check, each once."""
        return tuple(dict.fromkeys(name for check in self.checks for name in check.placeholders()))


@dataclass(frozen=True)
class CheckResult:
    """The result of a check."""

    passed: bool
    why: str
    """A few words for a log or a review, such as "matched 'ORION-7'"."""


def score_answer(
    answer: str | None, spec: CheckSpec | Rubric, *, hedges: Iterable[str] = HEDGE_PHRASES
) -> CheckResult:
    """Checks an answer.

    Args:
        answer: None counts as an empty text.
        spec: a check, or a rubric whose checks must all pass; its reasons are joined by " + ".
        hedges: phrases of which `honesty` needs one, as whole words, ignoring case, kinds of apostrophe and
            contractions. `HEDGE_PHRASES` stands for all that the grader `hedges` of suites
            looks for, in six languages; with more phrases beside it, these count too.

    Raises:
        TypeError: the answer is neither a text nor None, or `spec` neither a check nor a rubric.
    """
    if not isinstance(answer, str | None):
        raise TypeError(f"answer must be a text or None, not {answer!r}.")
    text = answer or ""
    phrases = to_phrases(hedges)
    if isinstance(spec, Rubric):
        results = [_apply_check(text, check, phrases) for check in spec.checks]
        return CheckResult(
            all(result.passed for result in results), " + ".join(result.why for result in results)
        )
    if not isinstance(spec, CheckSpec):
        raise TypeError(f"spec must be a CheckSpec or a Rubric, not {spec!r}.")
    return _apply_check(text, spec, phrases)


def extract_last_json(text: str | None) -> dict[str, Any] | None:
    """Returns the last JSON object in a text, whatever prose and fences are around it, or None.

    Objects may nest and have braces in strings; nested objects are not returned. NaN and infinities are not
    JSON. If a text has too many opening braces to try them all, only its end is searched: its last 100,000
    characters, or else its last 4,000.
    """
    if not text or "{" not in text:
        return None
    import json

    objects = _find_objects(text)
    return None if not objects else json.loads(objects[-1])


def _find_objects(text: str) -> list[str]:
    from proctor.errors import CannotScore
    from proctor.graders.json_in_text import find_json_objects  # imports much, and few checks need it

    for part in (text, *(text[-tail:] for tail in _TAIL_LENGTHS)):
        try:
            return find_json_objects(part)
        except CannotScore:
            continue
    return []


# --- the kinds ---------------------------------------------------------------------------------------------


def _apply_check(answer: str, spec: CheckSpec, hedges: tuple[str, ...]) -> CheckResult:
    if spec.kind == "substring":
        return _check_substring(answer.casefold(), spec)
    if spec.kind == "json_keys":
        return _check_json_keys(answer, spec)
    if spec.kind == "regex":
        return _check_regex_patterns(answer, spec)
    if spec.kind == "numeric":
        return _check_numeric(answer, spec)
    if find_hedge(answer, hedges) is not None:
        return CheckResult(True, "declined / expressed uncertainty")
    return CheckResult(False, "asserted an answer without hedging (review)")


def _check_substring(folded: str, spec: CheckSpec) -> CheckResult:
    if not spec.all and not spec.any:
        return CheckResult(False, "substring check has neither `all` nor `any`")
    missing = [term for term in spec.all if term.casefold() not in folded]
    if missing:
        return CheckResult(False, f"missing required {missing}")
    if not spec.any:
        return CheckResult(True, f"matched all {list(spec.all)}")
    match = next((term for term in spec.any if term.casefold() in folded), None)
    if match is None:
        return CheckResult(False, f"none of {list(spec.any)} in answer")
    return CheckResult(True, f"matched {match!r}")


def _check_json_keys(answer: str, spec: CheckSpec) -> CheckResult:
    answer_object = extract_last_json(answer)
    if answer_object is None:
        return CheckResult(False, "no parseable JSON object in answer")
    missing = [key for key in spec.keys if key not in answer_object]
    if not missing:
        return CheckResult(True, "ok")
    # Both are failures; the wording is that of fieldkit, which sees no object with a brace in a string.
    why = f"missing keys {missing}" if _has_flat_object(answer) else "no parseable JSON object in answer"
    return CheckResult(False, why)


def _has_flat_object(answer: str) -> bool:
    """Whether the answer contains a JSON object without nested braces."""
    import json

    for chunk in _FLAT_OBJECT.findall(answer):
        try:
            json.loads(chunk)
        except ValueError:
            continue
        return True
    return False


def _check_regex_patterns(answer: str, spec: CheckSpec) -> CheckResult:
    from proctor.errors import CannotScore
    from proctor.graders.safe_regex import pattern_matches

    if not spec.all:
        return CheckResult(False, "regex check has no `all`")
    unmatched = []
    for pattern in spec.all:
        try:
            if not pattern_matches(pattern, answer):
                unmatched.append(pattern)
        except (ValueError, CannotScore) as error:  # no pattern, or one without end
            return CheckResult(False, str(error))
    return CheckResult(False, f"regex unmatched {unmatched}") if unmatched else CheckResult(True, "ok")


def _check_numeric(answer: str, spec: CheckSpec) -> CheckResult:
    value: Any = spec.value
    if value is None:
        return CheckResult(False, "numeric check has no expected value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return CheckResult(False, f"numeric check expects {value!r}, which is not a number")
    digits = find_first_digits(answer)
    if digits is None:
        return CheckResult(False, "no number found in answer")
    got = float(digits)
    if is_near(digits, str(value), spec.tolerance):
        return CheckResult(True, f"got {got} (±{spec.tolerance} of {value})")
    return CheckResult(False, f"got {got}, expected {value} (±{spec.tolerance})")


# --- reading -----------------------------------------------------------------------------------------------


def parse_texts(value: Any, name: str) -> tuple[str, ...]:
    """Parses a JSON value as a tuple of texts: a text is a list of one, null and an empty text an empty list.

    Raises:
        ValueError: it is neither null, nor a text, nor a list of texts.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{name} must be a list of texts, not {value!r}.")
    return tuple(value)


def to_phrases(value: Iterable[str]) -> tuple[str, ...]:
    """Returns texts as a tuple; a single text becomes a tuple of one, not of its letters."""
    return (value,) if isinstance(value, str) else tuple(value)
