"""What a bundle holds: its files and their lines, and the statement that its envelope is about.

The statement is an in-toto Statement v1 with the predicate of test results, v0.1; all that is Proctor's own
stands in one field of it, `proctor_attestation`. Sources:
https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import assertion_digest
from proctor.env_vars import names_in
from proctor.model import Case, Run, Score, TargetSpec, Trial
from proctor.proof.canonical import canonical, data_of
from proctor.verdicts import Counts

VERSION = 1
"""Of the format."""
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
SUITE, TRIALS, CONFIG, ENVIRONMENT = "suite.jsonl", "trials.jsonl", "config.json", "environment.json"
FILES = (SUITE, TRIALS, CONFIG, ENVIRONMENT)
"""The files that the statement is about, in the order of its subjects."""
ENVELOPE = "envelope.json"
"""The file with the statement and its signatures; with it the list is whole."""
EXTENSION = "proctor_attestation"

Kind = Literal["full", "public"]
HasFileModel = Callable[[TargetSpec], bool]
"""Whether a target's model is a file, whose path a targets file makes absolute."""
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone: one without could be compared with no other."""


class Claim(Struct, frozen=True, kw_only=True):
    """The numbers of a run or of one of its splits: of trials, or of cases under a rule over repeats."""

    passed: int
    total: int
    failed: int
    errors: int
    unscored: int
    cases: int
    pass_rate: float | None
    """None of none."""
    ci95: tuple[float, float] | None
    """The Wilson interval of the pass rate, over cases."""


class TreeHead(Struct, frozen=True):
    """What binds all lines of a file together."""

    root: str
    """Of RFC 6962, as 64 hexadecimal digits."""
    size: int
    """The number of its leaves."""


class SuiteNamed(Struct, frozen=True):
    """Which suite was run."""

    name: str
    version: str | None
    """Its number in the store of the maker."""
    digest: str


class TargetNamed(Struct, frozen=True):
    """Who was asked."""

    name: str
    digest: str


class Looks(Struct, frozen=True):
    """How often the holdout of this suite was looked at before the run began, by kind."""

    rate: int
    reveal: int


class Statement(Struct, frozen=True, kw_only=True):
    """What is signed: the files by their digests, and what they come to."""

    files: dict[str, str]
    """The SHA-256 of each of `FILES`, as 64 hexadecimal digits."""
    result: Literal["PASSED", "FAILED"]
    """Whether the run's exit code was 0."""
    passed_tests: tuple[str, ...]
    """In suite order; of a public bundle without those that are held out, as `failed_tests`."""
    failed_tests: tuple[str, ...]
    """What was not measured is in neither."""
    kind: Kind
    run: str
    group: str
    suite: SuiteNamed
    target: TargetNamed
    started_at: Moment
    finished_at: Moment
    split: Literal["holdout", "all"]
    """Which of the claims is the headline: that of the holdout if the run has one."""
    claims: dict[str, Claim]
    """Under `all`, and under `dev` and `holdout` where the run has such trials."""
    cases: TreeHead
    """Over the lines of suite.jsonl after the first, as a full bundle has them."""
    trials: TreeHead
    """Over the lines of trials.jsonl, as a full bundle has them."""
    looks: Looks

    @property
    def claim(self) -> Claim:
        """The headline."""
        return self.claims[self.split]


# --- claims and statements ---------------------------------------------------------------------------------


def claim_of(counts: Counts) -> Claim:
    """The numbers as they are claimed."""
    return Claim(
        passed=counts.passed,
        total=counts.total,
        failed=counts.failed,
        errors=counts.errors,
        unscored=counts.unscored,
        cases=counts.cases,
        pass_rate=counts.pass_rate,
        ci95=counts.ci95,
    )


def statement_data(statement: Statement) -> dict[str, Any]:
    """The statement as plain data for `canonical`; that is the payload of the envelope."""
    own = msgspec.to_builtins(statement)
    files, suite = own.pop("files"), own["suite"]
    own["claims"] = {split: _claim_data(statement.claims[split]) for split in statement.claims}
    configuration = [
        {"name": suite["name"], "digest": {"proctorSuite": suite["digest"].removeprefix("sha256:")}},
        {"name": CONFIG, "digest": {"sha256": files[CONFIG]}},
    ]
    predicate = {
        "result": own.pop("result"),
        "configuration": configuration,
        "passedTests": list(own.pop("passed_tests")),
        "failedTests": list(own.pop("failed_tests")),
    }
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": files[name]}} for name in FILES],
        "predicateType": PREDICATE_TYPE,
        "predicate": {**predicate, EXTENSION: {"version": VERSION, **own}},
    }


def statement_from(data: Any) -> Statement:
    """The statement that such data has.

    Raises:
        ValueError: the data is not exactly what `statement_data` gives; the text is a clause.
    """
    try:
        predicate = data["predicate"]
        own = dict(predicate[EXTENSION])
        if own.pop("version", None) != VERSION:
            raise ValueError(f"its version is {predicate[EXTENSION].get('version')!r} instead of {VERSION}")
        own["files"] = {subject["name"]: subject["digest"]["sha256"] for subject in data["subject"]}
        own["result"] = predicate["result"]
        own["passed_tests"], own["failed_tests"] = predicate["passedTests"], predicate["failedTests"]
        statement = msgspec.convert(own, Statement)
        same = canonical(statement_data(statement)) == canonical(data)
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise ValueError(f"it has not the shape of a statement ({_clause(error)})") from None
    if not {"all", statement.split} <= set(statement.claims) <= {"all", "dev", "holdout"}:
        raise ValueError("it has not the claims of a statement")
    if not same:
        raise ValueError(
            "it has not the shape of a statement (a field is missing, unknown or written otherwise)"
        )
    return statement


def _claim_data(claim: Claim) -> dict[str, Any]:
    """A claim's numbers; JSON has one way to write 1 and 1.0."""
    ends = None if claim.ci95 is None else [_plain(end) for end in claim.ci95]
    rate = None if claim.pass_rate is None else _plain(claim.pass_rate)
    return {**msgspec.to_builtins(claim), "pass_rate": rate, "ci95": ends}


def _plain(number: float) -> float:
    return int(number) if number.is_integer() else number


def _clause(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


# --- files -------------------------------------------------------------------------------------------------


def published(run: Run, has_file_model: HasFileModel) -> Run:
    """The run as a bundle tells of it: without tags, which can change, and places on its maker's machine.

    Of a path that a targets file made absolute the last part stays; what the user wrote stays as it is, as
    does an address that has references.
    """
    folder = run.suite.folder

    def publish(specs: Iterable[TargetSpec]) -> tuple[TargetSpec, ...]:
        return tuple(_published_spec(spec, has_file_model) for spec in specs)

    return replace(
        run,
        suite=replace(run.suite, folder=""),
        target=_published_spec(run.target, has_file_model),
        judges=publish(run.judges),
        named_targets=publish(run.named_targets),
        named_judges=publish(run.named_judges),
        warnings=tuple(_published_warning(_without(folder, value)) for value in run.warnings),
        tags=(),
    )


def published_trial(trial: Trial, case: Case, run: Run) -> Trial:
    """The trial as a bundle tells of it: what failed, and why, without the folders that it was in.

    The digest of an assertion is that of what the suite has. The recorded one is of the values of variables,
    which could be guessed by it.
    """

    def redact(text: str) -> str:
        return _without_workspaces(run.id, _without(run.suite.folder, text))

    digests = [assertion_digest(assertion) for assertion in case.assertions] if case.variables else []
    if len(digests) != len(trial.scores):
        digests = [score.assertion for score in trial.scores]
    scores = tuple(map(_published_score, trial.scores, digests, [redact] * len(digests)))
    if trial.failure is None:
        return trial if scores == trial.scores else replace(trial, scores=scores)
    message = redact(trial.failure.message)
    return replace(trial, scores=scores, failure=replace(trial.failure, message=message))


def config_of(run: Run, has_file_model: HasFileModel) -> dict[str, Any]:
    """What config.json has for `canonical`: the published run without what stands in other files."""
    published_run = replace(published(run, has_file_model), versions={}, prices_date=None)
    config: dict[str, Any] = data_of(canonical(published_run))
    del config["suite"]
    return config


def environment_of(run: Run) -> dict[str, Any]:
    """What environment.json has: versions and prices as they were when the run was made."""
    return {"versions": run.versions, "prices_date": run.prices_date}


def _published_spec(spec: TargetSpec, has_file_model: HasFileModel) -> TargetSpec:
    options = {name: value for name, value in spec.options.items() if name != "folder"}
    if isinstance(options.get("healthcheck"), dict):
        options["healthcheck"] = _at_last_part(options["healthcheck"])
    options = _at_last_part(options)
    address = options.get("base_url")
    is_users = not has_file_model(spec) or spec.model in spec.name
    return replace(
        spec,
        model=spec.model if is_users else _last_part(spec.model),
        endpoint=address if names_in(address) else spec.endpoint,
        options=options,
        judge=None if spec.judge is None else _published_spec(spec.judge, has_file_model),
        fallbacks=tuple(_published_spec(fallback, has_file_model) for fallback in spec.fallbacks),
    )


def _published_score(score: Score, digest: str, redact: Callable[[str], str]) -> Score:
    reason = redact(score.reason)
    if reason == score.reason and digest == score.assertion:
        return score
    return replace(score, reason=reason, assertion=digest)


def _published_warning(text: str) -> str:
    """A warning without the folders before the file that it is of, which no folder of the suite may name."""
    place, mark, message = text.partition(": warning: ")
    return f"{_last_part(place)}{mark}{message}" if mark else text


def _at_last_part(options: dict[str, Any]) -> dict[str, Any]:
    cwd = options.get("cwd")
    return {**options, "cwd": _last_part(cwd)} if isinstance(cwd, str) else options


def _last_part(path: str) -> str:
    return PurePath(path).name if PurePath(path).is_absolute() else path


def _without(folder: str, text: str) -> str:
    """A text in which what lies in the folder is named from there."""
    if folder not in text or len(PurePath(folder).parts) < 2:  # nothing is told by a whole disk
        return text
    inside = rf"{re.escape(folder)}(?:([/\\])|(?![\w-]))"
    return re.sub(inside, lambda match: "" if match[1] else ".", text)


def _without_workspaces(run_id: str, text: str) -> str:
    """A text in which what lies in a workspace of the run is named from where they all are."""
    return re.sub(rf"[^\s'\"]*[/\\]{re.escape(run_id)}[/\\]", "", text) if run_id in text else text
