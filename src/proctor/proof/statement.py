"""The statement of a bundle, and the contents of its files.

The statement is an in-toto Statement v1 with the predicate of test results, v0.1; Proctor's own data is in
one field of it, `proctor_attestation`. Sources:
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

from proctor.codec import assertion_digest, to_record
from proctor.env_substitution import names_in
from proctor.model import Case, Run, Score, TargetSpec, Trial
from proctor.proof.canonical import canonical_json, parse_json
from proctor.stats import wilson
from proctor.verdicts import Counts

VERSION = 2
"""The version of the format: 2 since errors are no longer counted as failures."""
_VERSIONS = (1, VERSION)
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
SUITE, TRIALS, CONFIG, ENVIRONMENT = "suite.jsonl", "trials.jsonl", "config.json", "environment.json"
FILES = (SUITE, TRIALS, CONFIG, ENVIRONMENT)
"""The files that the statement is about, in the order of its subjects."""
ENVELOPE = "envelope.json"
"""The file with the statement and its signatures; a bundle has this file and `CERTIFICATE_FILES`."""
EXTENSION = "proctor_attestation"

BundleKind = Literal["full", "public"]
HasFileModel = Callable[[TargetSpec], bool]
"""Whether a target's model is a file, whose path a targets file makes absolute."""
AwareDatetime = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a time zone."""


class Claim(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counts of a run or of one of its splits: of trials, or of cases if each case counts once."""

    passed: int
    total: int
    failed: int
    errors: int
    unscored: int
    cases: int
    """The number of cases with a measured trial."""
    pass_rate: float | None
    """The mean over these cases; None without any."""
    ci95: tuple[float, float] | None
    bounds: tuple[float, float] | None = None
    """The pass rate if all unmeasured trials had failed, and if all had passed; None also in version 1."""
    shapes: dict[str, int] | None = None
    """`Counts.shapes`, from which all numbers but the verdicts follow; None in version 1."""
    interval_kind: Literal["confidence sequence"] | None = None
    """What `ci95` is, for a run that may stop by what it shows; None for that of a run of fixed size, as all
    claims on such runs had before there was this field."""

    @property
    def unmeasured(self) -> int:
        """The number of trials that are ERROR or UNSCORED."""
        return self.errors + self.unscored


class TreeHead(Struct, frozen=True):
    """The root and the size of the Merkle tree over the lines of a file."""

    root: str
    """The root by RFC 6962, as 64 hexadecimal digits."""
    size: int
    """The number of its leaves."""


class SuiteReference(Struct, frozen=True):
    """The suite that was run."""

    name: str
    version: str | None
    """Its version in the store of the bundle's maker."""
    digest: str


class TargetReference(Struct, frozen=True):
    """The target that was called."""

    name: str
    digest: str


class PromptReference(Struct, frozen=True):
    """The prompt that the cases of the run filled in."""

    name: str
    digest: str
    """The digest of its messages."""


class AccessCounts(Struct, frozen=True):
    """The number of accesses to the suite's holdout before the run started, by kind."""

    rate: int
    reveal: int


class Statement(Struct, frozen=True, kw_only=True):
    """The signed content: the digests of the files, and the results of the run."""

    files: dict[str, str]
    """The SHA-256 of each of `CERTIFICATE_FILES`, as 64 hexadecimal digits."""
    result: Literal["PASSED", "FAILED"]
    """Whether the run's exit code was 0."""
    passed_tests: tuple[str, ...]
    """In suite order; held-out tests are left out of public bundles, also in `failed_tests`."""
    failed_tests: tuple[str, ...]
    """Unmeasured trials are in neither list."""
    kind: BundleKind
    run: str
    group: str
    suite: SuiteReference
    target: TargetReference
    prompt: PromptReference | None = None
    """None if the cases were sent as they are; then the statement has no such field."""
    started_at: AwareDatetime
    finished_at: AwareDatetime
    split: Literal["holdout", "all"]
    """The claim that is the headline: the holdout's if the run has one."""
    claims: dict[str, Claim]
    """The claims for `all`, and for `dev` and `holdout` if the run has such trials."""
    cases: TreeHead
    """The tree over the lines of suite.jsonl after the first, as in a full bundle."""
    trials: TreeHead
    """The tree over the lines of trials.jsonl, as in a full bundle."""
    looks: AccessCounts
    version: int = VERSION

    @property
    def claim(self) -> Claim:
        """The headline claim."""
        return self.claims[self.split]

    @property
    def target_title(self) -> str:
        """The name of the target, with that of the prompt: `gpt-5 · terse`."""
        return self.target.name if self.prompt is None else f"{self.target.name} · {self.prompt.name}"


# --- claims and statements ---------------------------------------------------------------------------------


def make_claim(counts: Counts, version: int = VERSION) -> Claim:
    """Returns the claim for some counts, as a version of the format has it."""
    if version == 1:
        return make_claim_v1(counts, sum(counts.shapes.values()))
    return Claim(
        passed=counts.passed,
        total=counts.total,
        failed=counts.failed,
        errors=counts.errors,
        unscored=counts.unscored,
        cases=counts.cases,
        pass_rate=counts.pass_rate,
        ci95=counts.ci95,
        bounds=counts.bounds,
        shapes=dict(sorted(counts.shapes.items())),
        interval_kind=None if counts.best_count is None else "confidence sequence",
    )


def make_claim_v1(counts: Counts, cases: int) -> Claim:
    """Returns the claim for some counts as version 1 has it: by trial, with ERROR and UNSCORED as failures.

    Args:
        counts: the number of trials by verdict.
        cases: the number of cases, measured or not, over which the interval is.
    """
    rate = counts.passed / counts.total if counts.total else None
    number = max(1, min(cases, counts.total))
    return Claim(
        passed=counts.passed,
        total=counts.total,
        failed=counts.failed,
        errors=counts.errors,
        unscored=counts.unscored,
        cases=cases,
        pass_rate=rate,
        ci95=None if rate is None else wilson(min(rate * number, number), number),
    )


def statement_data(statement: Statement) -> dict[str, Any]:
    """Returns the statement as plain data for `canonical_json`, the payload of the envelope."""
    own = msgspec.to_builtins(statement)
    files, suite, version = own.pop("files"), own["suite"], own.pop("version")
    if statement.prompt is None:
        del own["prompt"]
    own["claims"] = {split: claim_data(statement.claims[split]) for split in statement.claims}
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
        "predicate": {**predicate, EXTENSION: {"version": version, **own}},
    }


def parse_statement(data: Any) -> Statement:
    """Parses a statement.

    Raises:
        ValueError: the data is not exactly what `statement_data` returns; the text is a clause.
    """
    try:
        predicate = data["predicate"]
        own = dict(predicate[EXTENSION])
        if own.get("version") not in _VERSIONS:
            raise ValueError(f"its version is {own.get('version')!r} instead of {VERSION}")
        own["files"] = {subject["name"]: subject["digest"]["sha256"] for subject in data["subject"]}
        own["result"] = predicate["result"]
        own["passed_tests"], own["failed_tests"] = predicate["passedTests"], predicate["failedTests"]
        statement = to_record(own, Statement)
        same = canonical_json(statement_data(statement)) == canonical_json(data)
    except (KeyError, TypeError, AttributeError) as error:
        clause = f"{error} is missing" if isinstance(error, KeyError) else "a field is of another type"
        raise ValueError(f"it does not have the structure of a statement ({clause})") from None
    if not {"all", statement.split} <= set(statement.claims) <= {"all", "dev", "holdout"}:
        raise ValueError("it does not have the claims of a statement")
    shape_versions = {1 if claim.shapes is None else 2 for claim in statement.claims.values()}
    has_bounds = all((claim.bounds is None) == (not claim.shapes) for claim in statement.claims.values())
    if shape_versions != {statement.version} or not has_bounds:
        raise ValueError(f"its claims do not match version {statement.version}")
    if not same:
        raise ValueError(
            "it does not have the structure of a statement (a field is missing, unknown or not in canonical "
            "form)"
        )
    return statement


def claim_data(claim: Claim) -> dict[str, Any]:
    """Returns a claim as plain data, with whole floats as integers, which canonical JSON writes alike."""
    data: dict[str, Any] = msgspec.to_builtins(claim)
    data["pass_rate"] = None if claim.pass_rate is None else _shortest_number(claim.pass_rate)
    for name in {"ci95", "bounds"}.intersection(data):
        data[name] = None if data[name] is None else [_shortest_number(end) for end in data[name]]
    return data


def _shortest_number(number: float) -> float:
    return int(number) if number.is_integer() else number


# --- files -------------------------------------------------------------------------------------------------


def portable_run(run: Run, has_file_model: HasFileModel) -> Run:
    """Returns the run for a bundle: without tags, which can change, and without paths of the local machine.

    Paths that a targets file made absolute keep their last part; what the user wrote is not changed, nor is
    an address with references to variables.
    """
    folder = run.suite.folder

    def publish(specs: Iterable[TargetSpec]) -> tuple[TargetSpec, ...]:
        return tuple(_portable_spec(spec, has_file_model) for spec in specs)

    return replace(
        run,
        suite=replace(run.suite, folder=""),
        target=_portable_spec(run.target, has_file_model),
        judges=publish(run.judges),
        named_targets=publish(run.named_targets),
        named_judges=publish(run.named_judges),
        warnings=tuple(_portable_warning(_strip_folder(folder, value)) for value in run.warnings),
        tags=(),
    )


def portable_trial(trial: Trial, case: Case, run: Run) -> Trial:
    """Returns the trial for a bundle: without local folders in failures and reasons.

    Digests of assertions are computed from the suite. The recorded ones include values of variables, which
    could be guessed from them.
    """

    def redact(text: str) -> str:
        text = _strip_folder(run.suite.folder, text)
        for run_id in (run.id, *run.merged_from):
            text = _strip_workspaces(run_id, text)
        return text

    digests = [assertion_digest(assertion) for assertion in case.assertions] if case.variables else []
    if len(digests) != len(trial.scores):
        digests = [score.assertion for score in trial.scores]
    scores = tuple(
        _portable_score(score, digest, redact) for score, digest in zip(trial.scores, digests, strict=True)
    )
    if trial.failure is None:
        return trial if scores == trial.scores else replace(trial, scores=scores)
    message = redact(trial.failure.message)
    return replace(trial, scores=scores, failure=replace(trial.failure, message=message))


def config_data(run: Run, has_file_model: HasFileModel) -> dict[str, Any]:
    """Returns the content of config.json: the published run without what other files contain."""
    published_run = replace(portable_run(run, has_file_model), versions={}, prices_date=None)
    config: dict[str, Any] = parse_json(canonical_json(published_run))
    del config["suite"]
    return config


def environment_data(run: Run) -> dict[str, Any]:
    """Returns the content of environment.json: the versions and the date of prices at the time of the run."""
    return {"versions": run.versions, "prices_date": run.prices_date}


def _portable_spec(spec: TargetSpec, has_file_model: HasFileModel) -> TargetSpec:
    options = {name: value for name, value in spec.options.items() if name != "folder"}
    if isinstance(options.get("healthcheck"), dict):
        options["healthcheck"] = _shorten_cwd(options["healthcheck"])
    options = _shorten_cwd(options)
    address = options.get("base_url")
    is_users = not has_file_model(spec) or spec.model in spec.name
    return replace(
        spec,
        model=spec.model if is_users else _last_path_part(spec.model),
        endpoint=address if names_in(address) else spec.endpoint,
        options=options,
        judge=None if spec.judge is None else _portable_spec(spec.judge, has_file_model),
        fallbacks=tuple(_portable_spec(fallback, has_file_model) for fallback in spec.fallbacks),
    )


def _portable_score(score: Score, digest: str, redact: Callable[[str], str]) -> Score:
    reason = redact(score.reason)
    if reason == score.reason and digest == score.assertion:
        return score
    return replace(score, reason=reason, assertion=digest)


def _portable_warning(text: str) -> str:
    """Removes the folders in front of the file name in a warning."""
    place, mark, message = text.partition(": warning: ")
    return f"{_last_path_part(place)}{mark}{message}" if mark else text


def _shorten_cwd(options: dict[str, Any]) -> dict[str, Any]:
    cwd = options.get("cwd")
    return {**options, "cwd": _last_path_part(cwd)} if isinstance(cwd, str) else options


def _last_path_part(path: str) -> str:
    return PurePath(path).name if PurePath(path).is_absolute() else path


def _strip_folder(folder: str, text: str) -> str:
    """Makes paths inside a folder relative to it in a text."""
    if folder not in text or len(PurePath(folder).parts) < 2:  # a root folder reveals nothing
        return text
    inside = rf"{re.escape(folder)}(?:([/\\])|(?![\w-]))"
    return re.sub(inside, lambda match: "" if match[1] else ".", text)


def _strip_workspaces(run_id: str, text: str) -> str:
    """Makes paths inside the run's workspaces relative in a text."""
    return re.sub(rf"[^\s'\"]*[/\\]{re.escape(run_id)}[/\\]", "", text) if run_id in text else text
