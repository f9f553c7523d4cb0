"""The statement of a bundle, what its files say of a run, and how trials are counted into claims."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor import spools
from proctor.codec import assertion_digest
from proctor.model import Assertion, Case, PassRule, Run, Settings, Suite, TargetSpec, Trial, Verdict
from proctor.proof.canonical import canonical_json, parse_canonical
from proctor.proof.claims import ClaimCounter
from proctor.proof.statement import (
    CONFIG,
    EXTENSION,
    FILES,
    AccessCounts,
    Claim,
    Statement,
    SuiteReference,
    TargetReference,
    TreeHead,
    config_data,
    environment_data,
    make_claim,
    parse_statement,
    portable_run,
    portable_trial,
    statement_data,
)
from proctor.reports.runs.serialize import case_results
from proctor.targets import has_file_model
from proctor.verdicts import Counts
from support.builders import NOON, make_case, make_counts, make_report, make_score, make_trial

STATEMENT = Statement(
    files={name: f"{place}" * 64 for place, name in enumerate(FILES)},
    result="FAILED",
    passed_tests=("a", "b"),
    failed_tests=("c",),
    kind="full",
    run="20260301-120000-abc123",
    group="20260301-120000-000000",
    suite=SuiteReference("capitals", None, "sha256:12"),
    target=TargetReference("echo", "sha256:34"),
    started_at=NOON,
    finished_at=NOON,
    split="holdout",
    claims={
        "all": make_claim(make_counts(2, 1)),
        "dev": make_claim(make_counts(1, 1)),
        "holdout": make_claim(make_counts(1, 0)),
    },
    cases=TreeHead("5" * 64, 3),
    trials=TreeHead("6" * 64, 3),
    looks=AccessCounts(1, 0),
)


# --- the statement -----------------------------------------------------------------------------------------


def test_a_statement_is_an_in_toto_statement_of_test_results() -> None:
    data = statement_data(STATEMENT)
    assert data["_type"] == "https://in-toto.io/Statement/v1"
    assert data["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert [subject["name"] for subject in data["subject"]] == list(FILES)
    assert all(
        set(subject) == {"name", "digest"} and set(subject["digest"]) == {"sha256"}
        for subject in data["subject"]
    )
    predicate = data["predicate"]
    assert set(predicate) == {"result", "configuration", "passedTests", "failedTests", "proctor_attestation"}
    assert predicate["configuration"] == [
        {"name": "capitals", "digest": {"proctorSuite": "12"}},
        {"name": CONFIG, "digest": {"sha256": STATEMENT.files[CONFIG]}},
    ]


def test_a_statement_is_read_back() -> None:
    assert parse_statement(parse_canonical(canonical_json(statement_data(STATEMENT)))) == STATEMENT


def test_the_numbers_of_a_claim_are_plain_for_any_reader() -> None:
    data = statement_data(STATEMENT)["predicate"]["proctor_attestation"]["claims"]
    assert data["holdout"]["pass_rate"] == 1
    assert b"$number" not in canonical_json(statement_data(STATEMENT))
    none = replace(STATEMENT, split="all", claims={"all": make_claim(Counts())})
    assert parse_statement(parse_canonical(canonical_json(statement_data(none)))).claim.pass_rate is None


def test_the_headline_is_the_holdouts() -> None:
    assert STATEMENT.claim == STATEMENT.claims["holdout"]
    assert STATEMENT.claim == Claim(
        passed=1,
        total=1,
        failed=0,
        errors=0,
        unscored=0,
        cases=1,
        pass_rate=1.0,
        ci95=make_counts(1, 0).ci95,
        bounds=(1.0, 1.0),
        shapes={"1/1/0": 1},
    )


def list_paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value of the data."""
    paths = [path] if path else []
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return paths + [place for key, value in inner for place in list_paths(value, (*path, key))]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in list_paths(statement_data(STATEMENT))
        if path[-2:] != ("claims", "dev") and "shapes" not in path[:-1]
    ],
)
@pytest.mark.parametrize("how", ["left out", "of another kind"])
def test_a_statement_without_any_of_its_values_is_refused(path: tuple[Any, ...], how: str) -> None:
    data = copy.deepcopy(statement_data(STATEMENT))
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    if how == "left out" and not isinstance(place, list):
        del place[path[-1]]
    else:
        place[path[-1]] = {"another": ["kind"]}
    with pytest.raises(ValueError, match=r"."):
        parse_statement(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(extra=1),
        lambda data: data["predicate"].update(warnedTests=[]),
        lambda data: data["predicate"]["proctor_attestation"].update(version=3),
        lambda data: data["predicate"]["proctor_attestation"].update(version=True),
        lambda data: data["predicate"]["proctor_attestation"].update(split="dev"),
        lambda data: data["predicate"]["proctor_attestation"]["claims"].pop("all"),
        lambda data: data["predicate"]["proctor_attestation"]["claims"].pop("holdout"),
        lambda data: data["predicate"]["proctor_attestation"]["claims"].update(
            test=data["predicate"]["proctor_attestation"]["claims"]["dev"]
        ),
        lambda data: data["predicate"]["proctor_attestation"].update(started_at="2026-03-01T12:00:00+00:00"),
        lambda data: data["subject"].reverse(),
        lambda data: data["subject"].append(data["subject"][0]),
        lambda data: data["subject"][0]["digest"].update(sha512="00"),
    ],
)
def test_a_statement_of_another_shape_is_refused(change: Callable[[Any], Any]) -> None:
    data = copy.deepcopy(statement_data(STATEMENT))
    change(data)
    with pytest.raises(ValueError, match=r"."):
        parse_statement(data)


@pytest.mark.parametrize("data", [None, [], "x", 1, {}, {"predicate": 1}, {"predicate": {}}])
def test_what_is_no_statement_at_all_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="structure of a statement"):
        parse_statement(data)


@pytest.mark.parametrize("field", ["started_at", "finished_at"])
def test_a_time_without_a_zone_is_refused(field: str) -> None:
    naive = replace(STATEMENT, **{field: NOON.replace(tzinfo=None)})
    with pytest.raises(ValueError, match=f"the field `{field}` is .*, which it cannot be"):
        parse_statement(statement_data(naive))


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"split": "ho,dout"}, "the field `split` is 'ho,dout', which it cannot be"),
        ({"trials": {"root": "00"}}, "the field `trials.size` is missing"),
        (
            {"claims": {"all": {"passed": "x"}}},
            "the field `claims[...].passed` has a value that it cannot have",
        ),
        ({"started_at": 5}, "the field `started_at` is 5, which it cannot be"),
        ({"split": "\u202etuodloh"}, r"the field `split` is '\u202etuodloh', which it cannot be"),
    ],
)
def test_a_wrong_field_is_told_with_its_value(change: dict[str, Any], clause: str) -> None:
    data = copy.deepcopy(statement_data(STATEMENT))
    data["predicate"][EXTENSION] |= change
    with pytest.raises(ValueError, match=re.escape(clause)):
        parse_statement(data)


# --- config.json and environment.json ----------------------------------------------------------------------

HOME = str(Path("/home/somebody/work").absolute())
RUN = Run(
    id="r",
    group="g",
    suite=Suite(name="s", dialect="meridian", folder=f"{HOME}/suites"),
    target=TargetSpec(
        name="mine",
        kind="cli",
        model="./ask.sh {PROMPT}",
        options={
            "folder": HOME,
            "cwd": f"{HOME}/agent",
            "env": {"KEY": "${{ MY_KEY }}"},
            "healthcheck": {"command": "true", "cwd": f"{HOME}/agent"},
        },
        fallbacks=(TargetSpec(name="canned", kind="scripted", model=f"{HOME}/answers.jsonl"),),
    ),
    judges=(TargetSpec(name="j", kind="cli", options={"folder": HOME}),),
    settings=Settings(timeout_s=30.0, threshold=1.0),
    versions={"python": "3.11"},
    prices_date="2026-01-01",
    started_at=NOON,
    finished_at=NOON,
    status="finished",
    planned=2,
    tags=("baseline",),
    warnings=(f"{HOME}/suites/s.jsonl:3: warning: Odd.",),
)


def test_the_config_has_no_place_on_the_makers_machine() -> None:
    text = canonical_json(config_data(RUN, has_file_model)).decode()
    assert "somebody" not in text
    assert "${{ MY_KEY }}" in text
    assert '"warnings":["s.jsonl:3: warning: Odd."]' in text


def test_the_config_is_the_same_after_the_run_got_tags() -> None:
    assert config_data(replace(RUN, tags=()), has_file_model) == config_data(RUN, has_file_model)


def test_what_stands_in_other_files_is_not_in_the_config() -> None:
    assert not {"suite", "versions", "prices_date", "tags"} & set(config_data(RUN, has_file_model))
    assert environment_data(RUN) == {"versions": {"python": "3.11"}, "prices_date": "2026-01-01"}


def test_publishing_twice_is_publishing_once() -> None:
    assert portable_run(portable_run(RUN, has_file_model), has_file_model) == portable_run(
        RUN, has_file_model
    )
    assert config_data(portable_run(RUN, has_file_model), has_file_model) == config_data(RUN, has_file_model)


def test_what_the_user_wrote_stays() -> None:
    word = f"scripted:{HOME}/answers.jsonl"
    spec = TargetSpec(name=word, kind="scripted", model=f"{HOME}/answers.jsonl")
    assert portable_run(replace(RUN, target=spec), has_file_model).target == spec


def test_a_command_line_and_a_models_name_stay_as_they_were_written() -> None:
    agent = TargetSpec(name="mine", kind="cli", model="/opt/agent --data /srv/data {PROMPT}")
    judge = TargetSpec(name="other", kind="openai", model="/models/small")
    portable = portable_run(replace(RUN, target=agent, judges=(judge,)), has_file_model)
    assert (portable.target, portable.judges) == (agent, (judge,))


def test_of_a_kind_whose_model_is_a_file_the_files_name_stays() -> None:
    spec = TargetSpec(name="mine", kind="tape", model="/home/me/tapes/a.tape")
    assert portable_run(replace(RUN, target=spec), has_file_model).target == spec
    portable = portable_run(replace(RUN, target=spec), lambda spec: spec.kind == "tape")
    assert portable.target == replace(spec, model="a.tape")


def test_an_address_stays_as_it_was_written() -> None:
    spec = TargetSpec(name="mine", kind="openai", model="m", endpoint="https://host.internal/v1")
    assert portable_run(replace(RUN, target=spec), has_file_model).target == spec
    spec = replace(spec, options={"base_url": "https://${{ GATEWAY }}/v1"})
    assert (
        portable_run(replace(RUN, target=spec), has_file_model).target.endpoint == "https://${{ GATEWAY }}/v1"
    )


def test_a_warning_names_its_file_and_no_folder_of_it() -> None:
    warnings = (f"{HOME}/x/s.jsonl:3: warning: Odd: {HOME}.", f"{HOME} is odd.", "x/s.jsonl:3: warning: Odd.")
    run = replace(RUN, suite=replace(RUN.suite, folder=""), warnings=warnings)
    assert portable_run(run, has_file_model).warnings == (f"s.jsonl:3: warning: Odd: {HOME}.", *warnings[1:])


@pytest.mark.parametrize(
    ("message", "portable_message"),
    [
        (f"No file {HOME}/suites/x.sh in {HOME}/suites.", "No file x.sh in .."),
        (f"No file {HOME}/suites2/x.sh.", f"No file {HOME}/suites2/x.sh."),
        ("The path '/home/me/.cache/r/0002' is there: /tmp/r/0003/a", "The path '0002' is there: 0003/a"),
        ("https://example.org/r is down", "https://example.org/r is down"),
    ],
)
def test_messages_lose_the_folders_of_the_maker(message: str, portable_message: str) -> None:
    failed, graded = make_trial(None), make_trial("x", replace(make_score(0), reason=message))
    assert failed.failure is not None
    failed = replace(failed, failure=replace(failed.failure, message=message))
    failure = portable_trial(failed, make_case("a"), RUN).failure
    assert failure is not None
    assert failure.message == portable_message
    assert portable_trial(graded, make_case("a"), RUN).scores[0].reason == portable_message


@pytest.mark.parametrize("folder", ["", "/"])
def test_a_suite_without_a_folder_takes_nothing_out_of_what_is_told(folder: str) -> None:
    failed = make_trial(None)
    assert failed.failure is not None
    failed = replace(failed, failure=replace(failed.failure, message="GET http://a.b/c: no /etc/d"))
    run = replace(RUN, suite=replace(RUN.suite, folder=folder))
    assert portable_trial(failed, make_case("a"), run) == failed


def test_the_value_of_a_variable_cannot_be_guessed_by_a_digest() -> None:
    case = replace(
        make_case("a"),
        variables=("PIN",),
        assertions=(Assertion(grader="contains", params={"value": "${{ PIN }}"}),),
    )
    value_digest = assertion_digest(Assertion(grader="contains", params={"value": "4711"}))
    portable = portable_trial(make_trial("x", replace(make_score(1), assertion=value_digest)), case, RUN)
    assert [score.assertion for score in portable.scores] == [assertion_digest(case.assertions[0])]


# --- counting ----------------------------------------------------------------------------------------------


def make_rule_run(rule: str = "each", **settings: Any) -> Run:
    suite = Suite(name="s", dialect="meridian", repeats_rule=rule, pass_rule=PassRule())  # type: ignore[arg-type]
    return replace(RUN, suite=suite, settings=Settings(**settings))


def count_claims(run: Run, rows: list[tuple[Trial, Case]]) -> ClaimCounter:
    counter = ClaimCounter(run)
    for trial, case in rows:
        counter.add(trial, case)
    return counter


@pytest.fixture
def rows() -> list[tuple[Trial, Case]]:
    """Three cases, asked twice each: one passes both times, one once, and of one an answer is missing."""
    values = {"a": (1, 1), "b": (0, 1), "c": (1, None)}
    return [
        (
            make_trial(
                None if value is None else "x",
                *(() if value is None else (make_score(value),)),
                case_id=name,
                position=position,
                repeat=repeat,
                split="holdout" if name == "b" else "dev",
            ),
            make_case(name),
        )
        for position, (name, trial_values) in enumerate(values.items())
        for repeat, value in enumerate(trial_values)
    ]


def test_each_trial_counts_in_its_split(rows: list[tuple[Trial, Case]]) -> None:
    counter = count_claims(make_rule_run(repeats=2), rows)
    claims = counter.claims()
    assert list(claims) == ["all", "dev", "holdout"]
    assert [
        (claim.passed, claim.failed, claim.errors, claim.total, claim.cases) for claim in claims.values()
    ] == [
        *((4, 1, 1, 6, 3), (3, 0, 1, 4, 2), (1, 1, 0, 2, 1)),
    ]
    assert counter.result == "FAILED"


def read_names(counter: ClaimCounter, *, public: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(counter.passed_names(public=public)), tuple(counter.failed_names(public=public))


def test_names_are_those_of_reports_and_the_public_gets_none_that_is_held_out(
    rows: list[tuple[Trial, Case]],
) -> None:
    counter = count_claims(make_rule_run(repeats=2), rows)
    assert read_names(counter, public=False) == (("a", "a (repeat 1)", "b (repeat 1)", "c"), ("b",))
    assert read_names(counter, public=True) == (("a", "a (repeat 1)", "c"), ())


def test_names_come_in_order_from_memory_and_from_a_file(
    rows: list[tuple[Trial, Case]], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = read_names(count_claims(make_rule_run(repeats=2), rows), public=False)
    monkeypatch.setattr(spools, "MAX_ROWS", 2)
    assert read_names(count_claims(make_rule_run(repeats=2), rows), public=False) == in_memory


@pytest.mark.parametrize("rule", ["each", "any", "mean", "lower_bound"])
def test_names_and_numbers_are_those_that_reports_have(rows: list[tuple[Trial, Case]], rule: str) -> None:
    run = make_rule_run(rule, repeats=2)
    report = make_report(*rows, suite=run.suite, settings=run.settings)
    counter = count_claims(run, rows)
    names: dict[Verdict, list[str]] = {Verdict.PASS: [], Verdict.FAIL: []}
    for result in case_results(report):
        names.setdefault(result.verdict, []).append(result.name)
    assert read_names(counter, public=False) == (tuple(names[Verdict.PASS]), tuple(names[Verdict.FAIL]))
    assert counter.claims()["all"] == make_claim(report.tally.result_counts)


def test_a_run_passes_by_its_own_gate(rows: list[tuple[Trial, Case]]) -> None:
    assert count_claims(make_rule_run(repeats=2, min_pass_rate=0.6, allow_errors=1), rows).result == "PASSED"
    assert count_claims(make_rule_run(repeats=2, min_pass_rate=0.6), rows).result == "FAILED"


def test_nothing_counted_is_a_claim_without_a_rate() -> None:
    assert count_claims(make_rule_run(), []).claims() == {"all": make_claim(Counts())}
