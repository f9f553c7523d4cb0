"""Bundles of runs with a prompt: the statement names it, and `verify` compares it with the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from proctor.codec import template_digest
from proctor.errors import BundleError
from proctor.model import Message, PromptTemplate, Run, SuiteDefaults
from proctor.services.bundles.attest import attest
from proctor.services.bundles.import_bundle import import_bundle
from proctor.services.bundles.import_records import ImportOptions
from proctor.services.bundles.replay import ReplayOptions, plan_replay
from proctor.services.bundles.verify import verify
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.report import read_trial_rows
from proctor.stores.sqlite.store import SqliteStore
from support.forging import TESTS, Forger
from support.sessions import MakeRuns, WriteSuite

TERSE = PromptTemplate(name="terse", messages=(Message(role="user", content="Q: {{ input }}"),))


@pytest.fixture
async def prompted(make: MakeRuns, suite: WriteSuite) -> Run:
    """A finished run with a prompt."""
    (result,) = await make(suite(*TESTS), prompts=(TERSE,))
    run: Run = result.run
    return run


@pytest.fixture
def bundle(prompted: Run, attested: Callable[..., Path]) -> Path:
    """Its unsigned bundle."""
    return attested(prompted, "bundle")


def check_refusal(forger: Forger, words: str) -> None:
    """Checks that `verify` refuses the bundle with these words."""
    with pytest.raises(BundleError) as caught:
        verify(forger.write(), {})
    assert words in str(caught.value)


def test_the_statement_names_the_prompt(bundle: Path) -> None:
    statement = verify(bundle, {}).statement
    assert statement.prompt is not None
    assert (statement.prompt.name, statement.prompt.digest) == ("terse", template_digest(TERSE))
    assert statement.target_title == "echo · terse"


def test_without_a_prompt_the_statement_has_no_such_field(run: Run, attested: Callable[..., Path]) -> None:
    forger = Forger(attested(run))
    assert "prompt" not in forger.own
    assert "prompt" not in forger.config
    assert verify(forger.path, {}).statement.prompt is None
    forger.own["prompt"] = {"name": "terse", "digest": template_digest(TERSE)}
    check_refusal(forger, "envelope.json: the prompt's name is terse, but should be None.")


def test_another_text_than_the_statement_has_is_found(bundle: Path) -> None:
    forger = Forger(bundle)
    forger.config["prompt"]["messages"][0]["content"] = "A better one: {{ input }}"
    check_refusal(forger, "envelope.json: the prompt's digest is sha256:")


@pytest.mark.parametrize(
    ("name", "words"),
    [("other", "the prompt's name is terse, but should be other"), ("te\u202erse", "the prompt's name is")],
)
def test_another_name_is_found(bundle: Path, name: str, words: str) -> None:
    forger = Forger(bundle)
    forger.config["prompt"]["name"] = name
    check_refusal(forger, words)


def test_a_name_with_control_characters_is_found(bundle: Path) -> None:
    forger = Forger(bundle)
    forger.config["prompt"]["name"] = forger.own["prompt"]["name"] = "te\u202erse"
    check_refusal(forger, "a name has control characters")


def test_a_prompt_that_the_cases_cannot_fill_is_found(bundle: Path) -> None:
    forger = Forger(bundle)
    forged = replace(TERSE, messages=(Message(role="user", content="{{ city }}"),))
    forger.config["prompt"]["messages"][0]["content"] = "{{ city }}"
    forger.own["prompt"]["digest"] = template_digest(forged)
    check_refusal(forger, "names `{{ city }}`")


async def test_an_imported_run_has_its_prompt(bundle: Path, prompted: Run, other: SqliteStore) -> None:
    result = import_bundle(other, bundle, ImportOptions(), lambda _: None)
    assert result.run.prompt == TERSE
    rows = list(read_trial_rows(other, other.run(prompted.id), reveal=True))
    assert rows[0].case.input[0].content == "Q: say 0"


async def test_a_replay_sends_the_filled_prompt(
    bundle: Path, other: SqliteStore, session: Callable[..., RunSession], store: SqliteStore
) -> None:
    plan = plan_replay(store, bundle, ImportOptions(), ReplayOptions(target="echo"))
    (result,) = await session().run(plan.request)
    assert result.run.prompt == TERSE
    outputs = [row.trial.output for row in read_trial_rows(store, result.run, reveal=True)]
    assert {output.text for output in outputs if output} == {f"Q: say {number}" for number in range(10)}


async def test_a_replay_of_one_of_the_prompts_of_a_suite_sends_that_one(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, session: Callable[..., RunSession], folder: Path
) -> None:
    (result,) = await make(suite(*TESTS))
    polite = replace(TERSE, name="polite", messages=(Message(role="user", content="Please {{ input }}"),))
    defaults = SuiteDefaults(prompts=(TERSE, polite))
    run = result.run
    store.update_run(
        replace(
            run,
            prompt=polite,
            seat=replace(run.seat, prompt="polite", first_prompt=False),
            suite=replace(run.suite, defaults=defaults),
        )
    )
    attest(store, store.run(run.id), folder / "own", public=False, key=None)
    plan = plan_replay(store, folder / "own", ImportOptions(), ReplayOptions(target="echo"))
    (replay_result,) = await session().run(plan.request)
    assert (replay_result.run.prompt, replay_result.run.seat.prompt) == (polite, "polite")


def test_a_public_bundle_shows_the_prompt(prompted: Run, attested: Callable[..., Path]) -> None:
    path = attested(prompted, "public", public=True)
    assert verify(path, {}).statement.prompt is not None
    assert Forger(path).config["prompt"]["messages"] == [{"role": "user", "content": "Q: {{ input }}"}]
