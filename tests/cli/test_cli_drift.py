"""`proctor drift`: which runs it finds, what it reports, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from proctor.stores import open_store
from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread

pytestmark = pytest.mark.slow

Days = Callable[..., None]
CASES = 20
FIRST_NIGHT = datetime(2024, 10, 1, 3, 15, tzinfo=UTC)


def case(number: int) -> dict[str, str]:
    return {"id": f"c{number}", "input": f"say {number}", "expected": "yes", "scorer": "contains"}


@pytest.fixture
def run_suite(suite: Proctor, proctor: Proctor, folder: Path) -> Callable[..., Any]:
    """Returns a function that runs a suite of twenty cases on a scripted target and returns the result."""
    name = suite(*map(case, range(CASES)), name="nightly.jsonl")

    def run(*words: object, answers: Mapping[str, Any] | None = None) -> Any:
        rules = {"*": "yes"} if answers is None else {**answers, "*": "yes"}
        (folder / "a.jsonl").write_text(json.dumps(rules), encoding="utf-8")
        return proctor("run", name, "--target", "scripted:a.jsonl", "--quiet", *words)

    return run


def other_answers(count: int, answer: Any = "yes, surely") -> dict[str, Any]:
    """Another answer for each of the first `count` cases."""
    return {f"c{n}": answer for n in range(count)}


@pytest.fixture
def nights(folder: Path) -> Callable[[], None]:
    """Returns a function that dates the stored runs one night apart, in their order."""

    def spread() -> None:
        store = open_store(str(folder / ".proctor" / "proctor.db"))
        for night, run in enumerate(reversed(list(store.runs()))):
            store.update_run(replace(run, started_at=FIRST_NIGHT + timedelta(days=night)))
        store.close()

    return spread


# --- what it says ------------------------------------------------------------------------------------------


def test_a_target_that_answers_as_it_did_is_unchanged(
    proctor: Proctor, run_suite: Proctor, nights: Days
) -> None:
    for _ in range(3):
        run_suite()
    nights()
    result = proctor("drift", "nightly.jsonl", "--target", "scripted:a.jsonl")
    assert result.code == 0
    first, *lines = result.out.splitlines()
    assert first == "Unchanged since 1 Oct 2024: 100.0% identical answers (84–100%, 20 cases) over 3 runs."
    assert "On your side, no recorded setting has changed." in lines
    assert "nightly v1 on scripted:a.jsonl" in lines


def test_a_change_is_dated_and_ends_with_1(proctor: Proctor, run_suite: Proctor, nights: Days) -> None:
    for changed in (0, 0, 0, 14, 14):
        run_suite("--repeat", 2, answers=other_answers(changed))
    nights()
    result = proctor("drift", "nightly", "--target", "scripted:a.jsonl")
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[0].startswith(
        "Drifting since 4 Oct 2024: 30.0% identical answers (15–52%, 20 cases) with the first run"
    )
    assert any(
        line.startswith("The answers changed between 3 Oct 2024 and 4 Oct 2024: 100.0% identical")
        for line in lines
    )


@pytest.mark.parametrize(
    ("changed", "repeats", "state", "code"),
    [
        (1, 1, "stable", 0),
        (4, 1, "watch", 0),
        (20, 1, "watch", 0),  # a target that words each answer anew looks the same
        (4, 2, "watch", 0),
        (5, 2, "drifting", 1),
    ],
)
def test_other_words_end_with_1_only_where_repeats_show_that_they_are_no_noise(
    proctor: Proctor, run_suite: Proctor, changed: int, repeats: int, state: str, code: int
) -> None:
    run_suite("--repeat", repeats)
    run_suite("--repeat", repeats, answers=other_answers(changed))
    result = proctor("drift", "--json")
    assert (result.code, result.json["exit_code"], result.json["drift"]["state"]) == (code, code, state)
    without = "New wording alone is not drift: a target that rewords every answer looks the same here."
    assert any(without in sentence for sentence in result.json["drift"]["sentences"]) is (
        repeats == 1 and state == "watch"
    )


def test_thirty_nights_of_new_words_are_no_drift_until_verdicts_change(
    proctor: Proctor, run_suite: Proctor
) -> None:
    for night in range(30):
        run_suite("--min-pass-rate", 0, answers=other_answers(20, f"yes, in the words of night {night}"))
    result = proctor("drift")
    assert (result.code, result.out.startswith("Watch since")) == (0, True)
    assert "No change of verdicts is shown" in result.out
    run_suite("--min-pass-rate", 0, answers=other_answers(20, "no"))
    result = proctor("drift")
    assert (result.code, "fewer cases pass" in result.out) == (1, True)


def test_a_drop_of_verdicts_is_told_with_its_cases(
    proctor: Proctor, run_suite: Proctor, nights: Days
) -> None:
    run_suite()
    run_suite(answers=other_answers(12, "no"))
    nights()
    result = proctor("drift")
    assert result.code == 0
    assert result.out.startswith("Watch since 2 Oct 2024: fewer cases pass, as on a bad night, with 40.0%")
    assert "Run the suite again on the next nights to find out." in result.out
    run_suite(answers=other_answers(12, "no"))
    nights()
    result = proctor("drift")
    assert result.code == 1
    assert result.out.startswith("Drifting since 2 Oct 2024: fewer cases pass, with 40.0% identical answers")
    assert (
        "It got worse: compared with the first verdicts, of 20 cases 12 got worse and 0 better (-60.0pp, "
        in result.out
    )
    assert "Worse: c0, c1, c2" in result.out


def test_a_noisy_target_is_judged_by_its_verdicts(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite("--repeat", 2, answers=other_answers(20, ["yes 1", "yes 2"]))
    run_suite("--repeat", 2, answers=other_answers(20, ["yes 3", "yes 4"]))
    result = proctor("drift")
    assert result.code == 0
    assert result.out.startswith("Noisy: 0.0% identical answers")
    assert (
        "two answers to the same prompt in one run are 0.0% identical (0–16%), so identical answers say "
        "little." in result.out
    )
    run_suite("--repeat", 2, answers=other_answers(20, ["no 5", "no 6"]))
    assert proctor("drift").code == 1


def test_changed_settings_of_the_user_are_named(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite("--concurrency", 3, "--repeat", 2)
    result = proctor("drift").out
    assert re.search(r"^On your side, with the run of .*: concurrency 32 → 3\.$", result, re.MULTILINE)
    assert re.search(
        r"^On your side, with the run of .*: repeats as the suite says → 2\.$", result, re.MULTILINE
    )


# --- what counts -------------------------------------------------------------------------------------------


def test_answers_that_were_not_asked_for_are_no_evidence(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite()
    run_suite("--reuse", answers=other_answers(20, "no"))
    result = proctor("drift")
    assert result.code == 3
    assert "20 reused from an earlier run" in result.out
    assert "The last run was not measured. Run the suite with --no-reuse and without --cache." in result.out


def test_a_last_run_that_failed_ends_with_3(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite(answers=other_answers(1, [{"text": "no"}]))
    Path("a.jsonl").write_text('{"c?": "yes"}', encoding="utf-8")
    proctor("run", "nightly.jsonl", "--target", "scripted:a.jsonl", "--quiet")
    result = proctor("drift", "--json")
    assert result.code == 3
    assert result.json["drift"]["runs"][-1]["errors"] == 10
    assert result.json["drift"]["measured"] is False


def test_regrades_and_runs_without_answers_are_left_out(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite("--reuse")
    proctor("regrade", "last", "--quiet")
    run_suite()
    result = proctor("drift")
    assert result.code == 0
    assert "over 2 runs" in result.out
    assert "Excluded 1 run that regraded stored answers without calling the target." in result.out
    assert "Excluded 1 run that had no new answers from the target." in result.out


@pytest.fixture
def newest(folder: Path) -> Callable[..., str]:
    """Changes fields of the newest stored run, and returns its id."""

    def change(**fields: Any) -> str:
        store = open_store(str(folder / ".proctor" / "proctor.db"))
        run = next(iter(store.runs()))
        store.update_run(replace(run, **fields))
        store.close()
        return run.id

    return change


def test_imported_runs_count_only_when_they_are_named(
    proctor: Proctor, run_suite: Proctor, newest: Callable[..., str]
) -> None:
    run_suite(answers=other_answers(20, "theirs: yes"))
    theirs = newest(imported="unsigned", tags=("imported-unsigned",))
    run_suite()
    result = proctor("drift", "nightly.jsonl", "--target", "scripted:a.jsonl")
    assert result.code == 5
    assert "Excluded 1 run that came from a bundle." in result.err
    run_suite()
    result = proctor("drift")
    assert result.code == 0
    assert "Excluded 1 run that came from a bundle." in result.out
    result = proctor("drift", "--baseline", theirs)
    assert (result.code, "over 3 runs" in result.out, "bundle" in result.out) == (0, True, False)
    assert result.out.startswith("Watch since")


def test_a_clock_that_was_wrong_does_not_stop_the_watch(
    proctor: Proctor, run_suite: Proctor, newest: Callable[..., str]
) -> None:
    run_suite(answers=other_answers(20, "yes, once"))
    newest(started_at=datetime(2999, 1, 1, tzinfo=UTC))
    run_suite()
    run_suite()
    result = proctor("drift")
    assert (result.code, "over 2 runs" in result.out) == (0, True)
    assert "Excluded 1 run that started in the future, according to a wrong clock." in result.out


def test_runs_with_the_same_start_are_ordered_by_storage(
    proctor: Proctor, run_suite: Proctor, newest: Callable[..., str]
) -> None:
    ids = []
    for changed in (0, 0, 20):
        run_suite(answers=other_answers(changed))
        ids.append(newest(started_at=FIRST_NIGHT))
    result = proctor("drift", "--json")
    assert [run["run"] for run in result.json["drift"]["runs"]] == ids
    assert result.json["drift"]["state"] == "watch"


def test_runs_of_another_version_of_the_suite_are_told(
    proctor: Proctor, run_suite: Proctor, suite: Proctor
) -> None:
    run_suite()
    suite(*map(case, range(CASES - 1)), name="nightly.jsonl")
    run_suite()
    run_suite()
    result = proctor("drift", "nightly.jsonl", "--target", "scripted:a.jsonl").out
    assert "Excluded 1 run that used another version of the suite." in result


def test_the_holdout_is_looked_at_once(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite()
    assert "Holdout accesses: 1." in proctor("drift").out
    assert proctor("drift", "--json").json["drift"]["looks"] == 2


def test_no_question_and_no_answer_is_shown(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite(answers=other_answers(20, "no secret-answer"))
    result = proctor("drift", "--json", "-o", "d.md", "-o", "d.svg")
    for text in (result.out, *(Path(name).read_text("utf-8") for name in ("d.md", "d.svg"))):
        assert "secret-answer" not in text
        assert "say 3" not in text


# --- which runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["nightly.jsonl", "nightly", "nightly@v1", "DIGEST"])
def test_a_suite_may_be_named_in_any_way(proctor: Proctor, run_suite: Proctor, word: str) -> None:
    run_suite()
    run_suite()
    digest = proctor("drift", "--json").json["drift"]["suite_digest"]
    assert proctor("drift", word.replace("DIGEST", digest[:20]), "--target", "scripted:a.jsonl").code == 0


def test_a_target_is_found_under_a_name_of_today(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite()
    Path("targets.yaml").write_text("targets:\n- name: mine\n  target: scripted:a.jsonl\n", encoding="utf-8")
    assert proctor("drift", "nightly", "--target", "mine").code == 0


def test_a_name_that_meant_another_target_is_told(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite("--temperature", 0.5)
    run_suite()
    run_suite()
    result = proctor("drift", "nightly", "--target", "scripted:a.jsonl").out
    assert "Excluded 1 run in which the same name stood for another target" in result


def test_missing_runs_and_wrong_usage_are_errors(proctor: Proctor, run_suite: Proctor, nights: Days) -> None:
    run_suite()
    run_suite()
    nights()
    errors = {
        "nightly.jsonl --target echo": (5, "Stored runs: nightly v1 on scripted:a.jsonl (2 runs)."),
        "nightly.jsonl --target nonsense": (5, "There is no such stored run on 'nonsense'."),
        "cheap --target echo": (5, "There is no stored run of 'cheap' in its current form"),
        "nothing.jsonl --target echo": (4, "There is no suite 'nothing.jsonl'"),
        "sha256:000000": (5, "There is no stored run of a suite with the digest sha256:000000."),
        "--since soon": (4, "'soon' is not a time."),
        "--since 2024-13-01": (4, "'2024-13-01' is not a time."),
        "--until 999999w": (4, "is not a time"),
        "--until 2024-09-01": (5, "No finished run of nightly v1 on scripted:a.jsonl matches in that period"),
        "--baseline zzz": (4, "There is no run 'zzz'"),
        "-o drift.csv": (4, "'drift.csv' has no known ending"),
        "-o no/drift.md": (4, "does not exist"),
    }
    for words, (code, why) in errors.items():
        result = proctor("drift", *words.split())
        assert (result.code, result.out, why in result.err) == (code, "", True), (words, result)


def test_one_run_is_too_few(proctor: Proctor, run_suite: Proctor, process: Proctor) -> None:
    run_suite()
    result = proctor("drift", "nightly", "--target", "scripted:a.jsonl", "--json")
    assert result.code == result.json["exit_code"] == 5
    assert "Only 1 run of nightly v1 on scripted:a.jsonl matches, and drift needs two runs." in result.err
    assert proctor("drift", "--store", "none.db").code == 4


def test_an_empty_store_is_told(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    proctor("runs", "delete", "last", "--yes")
    assert proctor("drift").code == 5


def test_words_may_be_left_out_while_they_are_not_needed(proctor: Proctor, run_suite: Proctor) -> None:
    run_suite()
    run_suite()
    proctor("run", "nightly.jsonl", "--target", "echo", "--quiet")
    assert proctor("drift").code == 0
    proctor("run", "nightly.jsonl", "--target", "echo", "--quiet")
    result = proctor("drift")
    assert result.code == 4
    assert "nightly v1 on echo (2 runs)" in result.err
    assert proctor("drift", "--target", "echo").code == 0
    assert proctor("drift", "nightly").code == 4


def test_a_file_that_has_changed_is_another_suite(
    proctor: Proctor, run_suite: Proctor, suite: Proctor
) -> None:
    run_suite()
    run_suite()
    suite(("c0", "say something else", "yes"), name="nightly.jsonl")
    result = proctor("drift", "nightly.jsonl", "--target", "scripted:a.jsonl")
    assert result.code == 5
    assert "nightly v1 on scripted:a.jsonl (2 runs)" in result.err
    assert proctor("drift", "nightly@v1", "--target", "scripted:a.jsonl").code == 0


def test_the_time_and_the_baseline_choose_the_runs(
    proctor: Proctor, run_suite: Proctor, nights: Days
) -> None:
    for changed in (0, 0, 14, 14, 14):
        run_suite("--repeat", 2, answers=other_answers(changed))
    nights()
    assert proctor("drift").code == 1
    assert proctor("drift", "--since", "2024-10-03").code == 0
    assert "over 2 runs" in proctor("drift", "--until", "2024-10-02").out
    late = proctor("runs", "list").out.splitlines()[3].split()[0]
    proctor("runs", "tag", late, "accepted")
    result = proctor("drift", "--baseline", "accepted")
    assert result.code == 0
    assert "Unchanged since 3 Oct 2024" in result.out
    assert "Excluded 2 runs that started before the baseline." in result.out
    runs = proctor("drift", "--baseline", "accepted", "--since", "2024-10-05", "--json").json["drift"]["runs"]
    assert [run["started_at"][:10] for run in runs] == ["2024-10-03", "2024-10-05"]
    proctor("run", "nightly.jsonl", "--target", "echo", "--quiet")
    assert proctor("drift", "--target", "scripted:a.jsonl", "--baseline", "last").code == 4


# --- files -------------------------------------------------------------------------------------------------


def test_the_files_say_the_same(proctor: Proctor, run_suite: Proctor, nights: Days) -> None:
    for changed in (0, 0, 0, 14, 14):
        run_suite("--repeat", 2, answers=other_answers(changed))
    nights()
    result = proctor("drift", "--json", "-o", "d.json", "-o", "d.md", "-o", "d.svg")
    again = json.loads(Path("d.json").read_text("utf-8"))
    assert again == result.json
    report = again["drift"]
    assert (report["state"], report["since"], len(report["runs"])) == ("drifting", "2024-10-04T03:15:00Z", 5)
    assert report["change_point"]["last_before"]["started_at"] == "2024-10-03T03:15:00Z"
    assert report["identical"]["share"] == pytest.approx(0.3)
    markdown = Path("d.md").read_text("utf-8")
    assert f"**{report['sentences'][0]}**" in markdown
    assert markdown.count("| 5 |") + markdown.count("/40 |") == 5
    drawing = Path("d.svg").read_text("utf-8")
    ET.fromstring(drawing)
    words = ("same as the first run", "stable", "watch", "changed by 4 Oct 2024")
    assert [word for word in words if word not in drawing] == []


def list_keys(thing: Any) -> set[str]:
    if isinstance(thing, list):
        return set().union(*map(list_keys, thing))
    return set(thing).union(*map(list_keys, thing.values())) if isinstance(thing, dict) else set()


def test_the_page_names_every_field(proctor: Proctor, run_suite: Proctor, nights: Days) -> None:
    for changed in (0, 0, 0, 14, 14):
        run_suite(
            "--repeat", 2, "--concurrency", 4 + changed, answers=other_answers(changed, ["no 1", "no 2"])
        )
    nights()
    report = proctor("drift", "--json").json
    assert report["drift"]["change_point"]
    page = (Path(__file__).parent.parent.parent / "docs" / "guides/watch-a-provider.md").read_text("utf-8")
    assert [key for key in list_keys(report) if f"`{key}`" not in page and f'"{key}"' not in page] == []


# --- a service ---------------------------------------------------------------------------------------------


@pytest.fixture
def service() -> Iterator[ThreadingHTTPServer]:
    """A server that can answer with another model than the one that requests name."""

    class Handler(JsonHandler):
        def handle_json(self, body: Any) -> None:
            build = server.build
            message = {"role": "assistant", "content": f"yes, says build {build}"}
            self.send_json(
                {
                    "model": f"model-{build}",
                    "system_fingerprint": f"fp_{build}",
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                }
            )

    with serve_in_thread(Handler) as server:
        server.build = 1
        yield server


def test_a_service_that_names_another_model_is_told(
    proctor: Proctor, suite: Proctor, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    name = suite(*map(case, range(CASES)))
    target = f"openai:big@http://127.0.0.1:{service.server_port}/v1"
    for build in (1, 1, 2):
        service.build = build
        assert proctor("run", name, "--target", target, "--quiet", "--repeat", 2).code == 0
    result = proctor("drift", name, "--target", target)
    assert result.code == 1
    assert "reported model model-1 → model-2." in result.out
    assert "system fingerprint fp_1 → fp_2." in result.out


# --- what init writes --------------------------------------------------------------------------------------


def test_the_steps_of_the_workflow_are_what_the_commands_take(proctor: Proctor) -> None:
    assert proctor("init").code == 0
    steps = yaml.safe_load(Path(".github/workflows/drift.yml").read_text("utf-8"))["jobs"]["drift"]["steps"]
    script = "\n".join(step.get("run", "") for step in steps)
    assert "--repeat 2 " in script
    for night in range(3):
        commands = re.findall(r"proctor ((?:run|drift) [^|\n]*)", script)
        codes = [proctor(*words.replace("local", "echo").split()).code for words in commands]
        assert codes == [0, 0 if night else 5]


def test_the_line_for_cron_is_silent_until_there_is_something_to_look_at(proctor: Proctor) -> None:
    """Runs the line as cron does: by `sh`, with a minimal environment, in `/`, and with `\\%` as `%`."""
    assert proctor("init", "100% it's mine").code == 0
    project = Path.cwd() / "100% it's mine"
    script = project / "a.jsonl"
    _, _, _, _, _, line = (project / "drift.cron").read_text("utf-8").splitlines()[-1].split(None, 5)
    assert "%" not in line.replace("\\%", "")
    command = line.replace("\\%", "%").replace("--target local", "--target scripted:a.jsonl")

    def night() -> str:
        environ = {"HOME": str(Path.cwd()), "PATH": "/usr/bin:/bin"}
        process = subprocess.run(
            ["sh", "-c", command], check=False, cwd="/", env=environ, capture_output=True, text=True
        )
        return process.stdout + process.stderr

    right = {"greeting-1": "hola", "sum-1": "42", "date-1": "1969-07-20", "colour-1": "green"}
    script.write_text(json.dumps({**right, "*": "xs[::-1]"}), encoding="utf-8")
    assert "Only 1 run of starter v1" in night()
    assert night() == ""
    assert "over 2 runs" in (project / "drift.log").read_text("utf-8")
    worded = {name: [f"It is {answer}", f"I say {answer}"] for name, answer in right.items()}
    del worded["sum-1"]  # `exact` passes one answer only
    for _ in range(3):  # other words are no drift
        script.write_text(json.dumps({**right, **worded, "*": "xs[::-1]"}), encoding="utf-8")
        worded = {name: [f"{answer}!" for answer in answers] for name, answers in worded.items()}
        assert night() == ""
    script.unlink()  # the target cannot be opened, and the earlier runs still agree
    assert "a.jsonl" in night()
    script.write_text('{"*": "no"}', encoding="utf-8")
    night()  # with five cases and a noisy target, one bad night can be chance
    assert night().startswith("Drifting since")
