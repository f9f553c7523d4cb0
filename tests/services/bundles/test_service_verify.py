"""What `verify` grades again in honest bundles, what it only recounts, and what it never does."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from proctor.bundles.keys import get_signing_key
from proctor.bundles.reader import Bundle
from proctor.errors import BundleError, UsageError
from proctor.model import Run, Selection, Settings
from proctor.services import progress_lines
from proctor.services.bundles import regrade
from proctor.services.bundles.verify import VerifiedBundle, verify
from proctor.services.grading import worker_pool
from support.builders import write_lines
from support.forging import TESTS, Forger
from support.sessions import MakeRuns, WriteModule, WriteSuite

Attested = Callable[..., Path]
Verify = Callable[..., VerifiedBundle]


@pytest.fixture
def attest_and_verify(attested: Attested) -> Verify:
    """Attests a run and verifies its bundle."""

    def check(run: Run, *, public: bool = False) -> VerifiedBundle:
        return verify(attested(run, public=public), {})

    return check


def edit_trials(path: Path, change: Callable[[list[Any]], object]) -> Path:
    """Changes lines of trials in the bundle and computes its hashes again."""
    forger = Forger(path)
    change(forger.trials)
    return forger.write()


def edit_score(path: Path, trial: int = 0, score: int = 0, **fields: Any) -> Path:
    """Changes fields of a score in the bundle; removes those that are None."""

    def change(lines: list[Any]) -> None:
        changed = lines[trial]["trial"]["scores"][score]
        changed.update(fields)
        for name in [name for name, value in fields.items() if value is None]:
            del changed[name]

    return edit_trials(path, change)


def edit_judgment(path: Path, judgment: int = 0, **fields: Any) -> Path:
    """Changes fields of a judgment of the bundle's first score."""
    return edit_trials(
        path, lambda lines: lines[0]["trial"]["scores"][0]["judgments"][judgment].update(fields)
    )


def check_refusal(path: Path, words: str) -> None:
    with pytest.raises(BundleError) as caught:
        verify(path, {})
    assert words in str(caught.value)


# --- runs of all kinds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(repeats=3),
        Settings(selection=Selection(split="dev")),
        Settings(selection=Selection(split="holdout")),
        Settings(selection=Selection(ids=("t1*",))),
        Settings(selection=Selection(limit=7)),
        Settings(selection=Selection(limit=3, split="dev"), repeats=2),
        Settings(min_pass_rate=0.5, threshold=0.5),
    ],
    ids=repr,
)
@pytest.mark.parametrize("public", [False, True])
async def test_every_selection_and_repeat_of_a_split_suite_holds(
    make: MakeRuns, suite: WriteSuite, attest_and_verify: Verify, settings: Settings, public: bool
) -> None:
    (result,) = await make(suite(*TESTS), settings=settings)
    bundle = attest_and_verify(result.run, public=public)
    assert bundle.graded_again + bundle.hidden == result.tally.all.total
    assert bundle.statement.claims["all"].passed == result.tally.all.passed
    held_out = bundle.statement.claims.get("holdout")
    assert not public or bundle.hidden == (0 if held_out is None else held_out.total)


async def test_a_trial_without_an_answer_holds(
    make: MakeRuns, suite: WriteSuite, attest_and_verify: Verify, folder: Path
) -> None:
    (folder / "some.jsonl").write_text('{"t1": "say 1"}\n', encoding="utf-8")
    (result,) = await make(suite(*TESTS[:3]), "scripted:some.jsonl", settings=Settings(allow_errors=2))
    bundle = attest_and_verify(result.run)
    assert (bundle.statement.claims["all"].errors, bundle.graded_again) == (2, 1)


@pytest.mark.parametrize("strategy", ["pass_at_k", "mean", "confidence_interval"])
async def test_a_rule_over_repeats_holds(
    make: MakeRuns, attest_and_verify: Verify, folder: Path, module: WriteModule, strategy: str
) -> None:
    name = module("calls = []\ndef f(prompt):\n    calls.append(prompt)\n    return 'ab'[len(calls) % 2]\n")
    (folder / "s.eval.yaml").write_text(
        f"execution: {{trials: {{count: 3, strategy: {strategy}}}}}\n"
        "tests:\n  - {id: one, criteria: c, input: one, assertions: [{type: equals, value: a}]}\n"
        "  - {id: two, criteria: c, input: two, assertions: [{type: equals, value: b}]}\n",
        encoding="utf-8",
    )
    (result,) = await make("s.eval.yaml", f"function:{name}:f")
    bundle = attest_and_verify(result.run)
    assert (bundle.graded_again, bundle.statement.claims["all"].total) == (6, 2)
    assert bundle.statement.passed_tests == (("one", "two") if strategy == "pass_at_k" else ())


async def test_a_grader_over_all_repeats_is_run_again(
    make: MakeRuns, attested: Attested, folder: Path, module: WriteModule
) -> None:
    name = module("def f(prompt):\n    return 'same' if 'one' in prompt else str(id(object()))[-9:]\n")
    consistent = {"expected": {"type": "consistency"}, "num_runs": 3}
    write_lines(folder / "c.jsonl", *({"id": word, "prompt": word, **consistent} for word in ("one", "two")))
    (result,) = await make("c.jsonl", f"function:{name}:f")
    path = attested(result.run)
    assert verify(path, {}).graded_again == 6
    changed = edit_trials(path, lambda lines: lines[1]["trial"]["output"].update(text="other"))
    check_refusal(changed, "and grading the answer again gives")


async def test_what_is_said_over_repeats_of_which_one_is_missing_is_found(
    make: MakeRuns, folder: Path, module: WriteModule, attested: Attested
) -> None:
    name = module("n = []\ndef f(prompt):\n    n.append(1)\n    return 'same' if len(n) != 2 else 1 / 0\n")
    row = {"id": "one", "prompt": "one", "expected": {"type": "consistency"}, "num_runs": 3}
    write_lines(folder / "c.jsonl", row)
    (result,) = await make("c.jsonl", f"function:{name}:f", settings=Settings(allow_errors=3, concurrency=1))
    path = attested(result.run)
    bundle = verify(path, {})
    assert (bundle.statement.claims["all"].errors, bundle.graded_again) == (1, 2)
    edit_trials(path, lambda lines: lines[0].update(verdict="pass"))
    check_refusal(edit_score(path, outcome="pass", value=1), "the outcome is pass, but should be unscored")


EVERY_ASSERTION = """
tests:
  - id: text
    criteria: c
    input: What is the capital of Chile?
    assertions:
      - {type: contains, value: Santiago, required: true}
      - {type: icontains, value: lima, negate: true, weight: 2, name: not-lima}
      - {type: regex, value: '^San', flags: i}
      - {type: latency, threshold: 5000}
      - type: composite
        assertions:
          - {name: short, type: regex, value: '^.{1,80}$'}
          - {name: named, type: contains, value: Santiago}
        aggregator: {type: weighted_average, weights: {named: 3}}
  - id: own
    criteria: c
    input: Why?
    assertions:
      - {type: code-grader, command: [python, mark.py], required: 0.25}
      - type: composite
        assertions:
          - {name: a, type: code-grader, command: [python, mark.py]}
        aggregator: {type: threshold, threshold: 0.5}
  - id: secret
    criteria: c
    input: The word is ${{ WORD_OF_TODAY }}.
    assertions: [{type: contains, value: '${{ WORD_OF_TODAY }}'}]
"""


async def test_programs_and_variables_are_recounted_and_named_and_no_program_runs(
    make: MakeRuns, attest_and_verify: Verify, folder: Path, environ: dict[str, str]
) -> None:
    environ["WORD_OF_TODAY"] = "marmalade"
    (folder / "every.eval.yaml").write_text(EVERY_ASSERTION, encoding="utf-8")
    (folder / "mark.py").write_text("open('ran', 'a').close(); print('{\"score\": 1}')", encoding="utf-8")
    answers = {
        "text": {"text": "Santiago.", "duration_ms": 5},
        "own": "Because.",
        "secret": "It is marmalade.",
    }
    (folder / "a.jsonl").write_text(json.dumps(answers), encoding="utf-8")
    (result,) = await make("every.eval.yaml", "scripted:a.jsonl")
    assert result.tally.all.passed == 3
    (folder / "ran").unlink()
    bundle = attest_and_verify(result.run)
    assert bundle.graded_again == 5
    assert bundle.recounted == {"program": 1, "composite": 1, "contains": 1}
    assert not (folder / "ran").exists()


async def test_a_recounted_score_must_follow_from_its_value(
    make: MakeRuns, folder: Path, environ: dict[str, str], attested: Attested
) -> None:
    environ["WORD_OF_TODAY"] = "marmalade"
    (folder / "every.eval.yaml").write_text(EVERY_ASSERTION, encoding="utf-8")
    (folder / "mark.py").write_text("print('{\"score\": 0.3}')", encoding="utf-8")
    (folder / "a.jsonl").write_text('{"*": "nothing"}', encoding="utf-8")
    (result,) = await make("every.eval.yaml", "scripted:a.jsonl")
    changes: list[tuple[int, dict[str, Any], str]] = [
        (1, {"outcome": "pass"}, "is pass, and the value"),
        (2, {"outcome": "pass"}, "is pass, and the value"),
        (1, {"required": 0.2}, "the gate is 0.2, and the assertion has 0.25"),
    ]
    for nth, (trial, fields, words) in enumerate(changes):
        check_refusal(edit_score(attested(result.run, f"b{nth}"), trial, **fields), words)


# --- judges ------------------------------------------------------------------------------------------------


@pytest.fixture
async def build_judged(make: MakeRuns, folder: Path, attested: Attested) -> Callable[..., Awaitable[Path]]:
    """Builds a bundle of one case that judges graded with the given replies."""

    async def build(*replies: str, repeats: int = 1, target: str = "echo") -> Path:
        (folder / "empty.jsonl").write_text('{"*": ""}', encoding="utf-8")
        row = {
            "id": "q",
            "category": "reasoning",
            "input": "Why?",
            "ideal": "So.",
            "metadata": {"difficulty": "easy", "tokens_est": 1},
            "assertion": {"type": "llm_judge", "judge_prompt": "Is it right?"},
        }
        (folder / "j.jsonl").write_text(json.dumps(row), encoding="utf-8")
        judges = []
        for nth, reply in enumerate(replies):
            (folder / f"judge{nth}.jsonl").write_text(json.dumps({"*": reply}), encoding="utf-8")
            judges.append(f"scripted:judge{nth}.jsonl")
        settings = Settings(judge_repeats=repeats)
        (result,) = await make("j.jsonl", target, judges=tuple(judges), settings=settings)
        return attested(result.run)

    return build


BuildJudged = Callable[..., Awaitable[Path]]


@pytest.mark.parametrize(
    ("replies", "repeats"),
    [(("YES",), 1), (("NO",), 1), (("YES", "NO", "YES"), 1), (("YES", "hm"), 2), (("NO", "hm", "NO"), 1)],
)
async def test_what_judges_said_is_recounted(
    build_judged: BuildJudged, replies: tuple[str, ...], repeats: int
) -> None:
    bundle = verify(await build_judged(*replies, repeats=repeats), {})
    assert bundle.recounted == {"llm_judge": 1}
    assert (bundle.graded_again, bundle.unverified) == (0, ())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outcome": "pass", "value": 1}, "the outcome is pass, and the judges' replies make it fail"),
        ({"value": 0.5}, "the value is 0.5, and the judges' replies make it 0.0"),
        ({"judgments": None}, "the outcome is fail, and the judges' replies make it unscored"),
    ],
)
async def test_a_score_that_its_judgments_do_not_make_is_found(
    build_judged: BuildJudged, change: dict[str, Any], words: str
) -> None:
    check_refusal(edit_score(await build_judged("NO"), **change), words)


async def test_a_judgment_that_its_reply_does_not_make_is_found(build_judged: BuildJudged) -> None:
    path = edit_judgment(await build_judged("NO"), passed=True, value=1)
    words = "`passed` of judgment 1 by scripted:judge0.jsonl is True, but should be False"
    check_refusal(edit_score(path, outcome="pass", value=1), words)


async def test_judgments_that_were_outvoted_or_left_out_are_found(build_judged: BuildJudged) -> None:
    path = await build_judged("NO", "NO", "YES")
    words = "`passed` of judgment 2 by scripted:judge1.jsonl is True, but should be False"
    check_refusal(edit_judgment(path, 1, passed=True, value=1), words)
    edit_judgment(path, 1, passed=False, value=0)
    assert verify(path, {}).statement.claims["all"].failed == 1
    check_refusal(
        edit_trials(path, lambda lines: lines[0]["trial"]["scores"][0]["judgments"].pop(0)),
        "the outcome is fail, and the judges' replies make it unscored",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": 0.5}, "the value is 0.5, and the judges' replies make it 0.0"),
        ({"outcome": "pass", "value": 1}, "the outcome is pass, and the judges' replies make it fail"),
    ],
)
async def test_an_empty_answer_that_no_judge_saw_can_only_fail(
    build_judged: BuildJudged, change: dict[str, Any], words: str
) -> None:
    path = await build_judged("YES", target="scripted:empty.jsonl")
    assert verify(path, {}).statement.claims["all"].failed == 1
    check_refusal(edit_score(path, **change), words)


async def test_judgments_that_are_said_to_be_counted_by_another_rule_are_found(
    build_judged: BuildJudged,
) -> None:
    path = await build_judged("YES", "NO")
    assert verify(path, {}).statement.claims["all"].unscored == 1
    details = {"rule": "any", "for": 1, "against": 1, "unread": 0}
    words = "the outcome is pass, and the judges' replies make it unscored"
    check_refusal(edit_score(path, outcome="pass", value=1, details=details), words)


async def test_a_judge_who_never_judged_is_named(build_judged: BuildJudged) -> None:
    bundle = verify(edit_judgment(await build_judged("NO"), judge="openai:gpt-99"), {})
    assert any("the run has no such judge" in line for line in bundle.unverified)


def test_a_judgment_beside_a_check_that_asks_nobody_is_found(run: Run, attested: Attested) -> None:
    judgments = [{"judge": "x", "prompt_digest": "y"}]
    path = edit_score(attested(run), outcome="pass", value=1, judgments=judgments)
    check_refusal(path, "the number of judgments is 1, but should be 0")


SEVERAL_JUDGMENTS = """
tests:
  - id: q
    criteria: Is it short?
    input: Why?
    assertions:
      - type: rubrics
        criteria:
          - {id: short, outcome: It is short., required: true}
          - {id: apt, outcome: It is apt., weight: 9}
      - type: composite
        assertions:
          - {name: one, type: llm-grader, prompt: Is it kind?}
          - {name: two, type: llm-grader, prompt: Is it true?}
        aggregator: {type: weighted_average}
"""


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        (0, {"required": None}, "the gate is None, and the judges' replies make it 1.0"),
        (0, {"value": 0}, "the value is 0.0, and the judges' replies make it 0.9"),
        (0, {"value": 0.9, "outcome": "pass"}, "the outcome is pass, and the judges' replies make it fail"),
        (1, {"value": 0.9, "outcome": "pass"}, "the outcome is pass, and the judges' replies make it fail"),
        (1, {"value": 0.75}, "the value is 0.75, and the judges' replies make it 0.5"),
    ],
)
async def test_what_judges_say_of_items_and_members_is_read_again(
    make: MakeRuns,
    folder: Path,
    attested: Attested,
    module: WriteModule,
    place: int,
    change: dict[str, Any],
    words: str,
) -> None:
    (folder / "s.eval.yaml").write_text(SEVERAL_JUDGMENTS, encoding="utf-8")
    checks = [{"id": "short", "satisfied": False}, {"id": "apt", "satisfied": True}]
    replies = [json.dumps(reply) for reply in ({"checks": checks}, {"score": 1}, {"score": 0})]
    name = module(
        f"a, b, c = {replies!r}\n"
        "def f(prompt):\n    text = prompt[-1]['content']\n"
        "    return a if 'to decide' in text else b if 'kind?' in text else c\n"
    )
    (result,) = await make("s.eval.yaml", judges=(f"function:{name}:f",))
    path = attested(result.run)
    bundle = verify(path, {})
    assert (bundle.recounted, bundle.unverified) == ({"rubrics": 1, "composite": 1}, ())
    check_refusal(edit_score(path, score=place, **change), words)


async def test_replies_to_prompts_of_another_version_are_counted_and_named(build_judged: BuildJudged) -> None:
    bundle = verify(edit_judgment(await build_judged("NO"), prompt_digest="sha256:0"), {})
    assert any("1 judgments were taken as recorded, without reading" in line for line in bundle.unverified)


# --- slow checks -------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_pattern_that_does_not_end_is_given_up(
    make: MakeRuns, folder: Path, attested: Attested, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regrade, "_MAX_LOST_S", 0.2)
    tests = "".join(
        f"  - {{id: t{n}, criteria: c, input: '{n}', assertions: [{{type: regex, value: '(a|aa)+$'}}]}}\n"
        for n in range(20)
    )
    (folder / "slow.eval.yaml").write_text(f"tests:\n{tests}", encoding="utf-8")
    (folder / "a.jsonl").write_text('{"*": "short"}', encoding="utf-8")
    (result,) = await make("slow.eval.yaml", "scripted:a.jsonl")

    def change(lines: list[Any]) -> None:
        for line in lines:
            line["trial"]["output"]["text"] = "a" * 60 + "!"

    bundle = verify(edit_trials(attested(result.run), change), {})
    assert bundle.recounted == {"regex": 20}
    assert any("Not every check by regex ended in time" in line for line in bundle.unverified)


@pytest.mark.slow
async def test_a_schema_that_does_not_end_is_given_up(
    make: MakeRuns, folder: Path, attested: Attested, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "CPU_LIMIT_S", 0.2)
    schema: dict[str, Any] = {"$defs": {"x0": {"type": "integer"}}}
    for n in range(1, 26):  # twice as long with each of them
        below = {"$ref": f"#/$defs/x{n - 1}"}
        schema["$defs"][f"x{n}"] = {"anyOf": [below, below]}
    schema |= {"$ref": "#/$defs/x25"}
    expected = {"type": "json_schema", "schema": schema}
    row = {"id": "q", "prompt": "1", "expected": expected, "scoring": {"method": "json_schema"}}
    write_lines(folder / "bomb.jsonl", row)
    (result,) = await make("bomb.jsonl")
    assert result.tally.all.passed == 1
    path = edit_trials(attested(result.run), lambda lines: lines[0]["trial"]["output"].update(text='"text"'))
    assert verify(path, {}).recounted == {"json_schema": 1}


# --- files and progress ------------------------------------------------------------------------------------


def test_a_signed_bundle_needs_cryptography_and_an_unsigned_one_does_not(
    run: Run, attested: Attested, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed, unsigned = attested(run, "signed", key=get_signing_key(folder / "keys", None)), attested(run)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=r"pip install 'proctor\[sign\]'"):
        verify(signed, {})
    assert verify(unsigned, {}).standing == "unsigned"


def test_an_archive_and_a_folder_come_to_the_same(run: Run, attested: Attested) -> None:
    from_folder, from_archive = (verify(attested(run, name, public=True), {}) for name in ("b", "b.zip"))
    assert (from_folder.statement, from_folder.hidden, from_folder.run) == (
        from_archive.statement,
        from_archive.hidden,
        from_archive.run,
    )


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("suite.jsonl", b'"dialect":"m', b'"dialect":"n'),
        ("trials.jsonl", b'"reason":"T', b'"reason":"t'),
        ("config.json", b'"name":"e', b'"name":"f'),
        ("environment.json", b'"python":"3', b'"python":"9'),
    ],
)
def test_a_file_that_is_exchanged_after_it_was_hashed_is_found(
    run: Run, attested: Attested, monkeypatch: pytest.MonkeyPatch, name: str, before: bytes, after: bytes
) -> None:
    folder = attested(run)
    sha256 = Bundle.sha256

    def change_after_hash(bundle: Bundle, file: str) -> str:
        digest = sha256(bundle, file)
        if file == name:
            path = folder / file
            path.write_bytes(path.read_bytes().replace(before, after))
        return digest

    monkeypatch.setattr(Bundle, "sha256", change_after_hash)
    check_refusal(folder, f"{name} changed while it was read")


def test_progress_is_told_of_what_takes_long(
    run: Run, attested: Attested, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = attested(run)
    notes: list[str] = []
    verify(path, {}, notes.append)
    assert notes == []
    monkeypatch.setattr(progress_lines, "_FIRST_S", 0.0)
    verify(path, {}, notes.append)
    assert notes == ["1 of 10 trials checked so far"]


@pytest.mark.parametrize("name", ["full", "public"])
def test_a_bundle_of_version_1_holds_with_the_numbers_that_it_has(name: str) -> None:
    claims = verify(Path(__file__).parents[2] / "data" / "version_1" / f"{name}.zip", {}).statement.claims
    assert (claims["all"].passed, claims["all"].total, claims["all"].errors) == (16, 24, 3)
    assert claims["all"].pass_rate == 16 / 24
    assert (claims["holdout"].cases, claims["holdout"].pass_rate) == (4, 0.5)


@pytest.mark.parametrize("name", ["full", "public"])
def test_a_claim_of_version_1_that_does_not_follow_is_found(name: str, tmp_path: Path) -> None:
    with ZipFile(Path(__file__).parents[2] / "data" / "version_1" / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    forger = Forger(tmp_path)
    forger.own["claims"]["all"]["pass_rate"] = 0.75
    with pytest.raises(BundleError, match=r"`pass_rate` of the claim on all is 0\.75"):
        verify(forger.restate(), {})
