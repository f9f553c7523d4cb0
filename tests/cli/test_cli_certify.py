"""`proctor certify` of runs, bundles and targets: codes, files, badges, holdout accesses, and errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread

CASES = tuple((f"t{n}", f"say {n}", f"say {n}" if n % 4 else "no") for n in range(48))
CAPABLE = Path(__file__).parents[1] / "data" / "capable.py"
SCRIPTS = (
    "javascript:alert(1)",
    "JavaScript:x",
    "\u202ejavascript:x",
    "\u2066javascript:x",
    "java\tscript:x",
)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run(proctor: Proctor, suite: Proctor) -> str:
    """A run of 24 dev and 24 holdout cases, three of four of them passed."""
    proctor("run", suite(*CASES), "--target", "echo", "--holdout", "0.5", "-q")
    return "last"


def badge_text(path: str) -> str:
    root = ElementTree.fromstring(Path(path).read_text(encoding="utf-8"))
    return [element.text or "" for element in root.iter(f"{SVG}text")][1]


def looks(proctor: Proctor) -> int:
    """The number of holdout accesses so far; this call adds one itself."""
    count: int = proctor("runs", "show", "last", "--json").run["looks"]
    return count - 1


# --- what is certified -------------------------------------------------------------------------------------


def test_exactly_one_thing_can_be_certified(proctor: Proctor, run: str) -> None:
    assert proctor("certify").code == 4
    assert "No subject is given" in proctor("certify").err
    assert proctor("certify", run, "--target", "echo").code == 4
    assert proctor("certify", "--target", "echo", "--judge", "echo", "--labels", "l.jsonl").code == 4
    assert "--labels" in proctor("certify", "--judge", "echo").err


@pytest.mark.parametrize(
    "words",
    [
        ("--target", "echo", "--min-cases", "3"),
        ("--target", "echo", "--force"),
        ("--target", "echo", "--bundle", "b"),
        ("--target", "echo", "--labels", "l.jsonl"),
        ("last", "--seed", "3"),
        ("last", "--repeat", "3"),
        ("last", "--max-latency", "3"),
        ("last", "--retries", "4"),
        ("last", "--concurrency", "2"),
        ("--target", "echo", "--keys", "k"),
        ("--target", "echo", "--allow-errors", "0"),
        ("--judge", "echo", "--labels", "l.jsonl", "--url", "x"),
    ],
)
def test_an_option_without_effect_is_refused(proctor: Proctor, words: tuple[str, ...]) -> None:
    result = proctor("certify", *words)
    assert (result.code, "Remove it" in result.err) == (4, True)


def test_the_help_says_of_each_option_what_it_is_for(proctor: Proctor) -> None:
    sections = proctor("certify", "--help").out.split("\nFor ")[1:]
    options = {part.partition(":\n")[0]: part for part in sections}
    assert "--min-cases" in options["a run or a bundle"]
    assert "--seed" in options["a target"]
    assert "--labels" in options["a judge"]
    assert "--retries" in options["a target or a judge"]
    assert "--output" in options["all certificates"]


def test_an_output_file_that_cannot_be_written_is_refused_before_any_request(
    proctor: Proctor, run: str, own_keys: Path
) -> None:
    own_keys.mkdir()
    for output in ("c.txt", "c", "missing/c.json", "keys"):
        assert proctor("certify", run, "-o", output).code == 4, output
    assert looks(proctor) == 0


@pytest.mark.parametrize("url", [*SCRIPTS, "data:text/html,x", " ", "http://["])
def test_a_link_to_a_script_is_refused(proctor: Proctor, url: str) -> None:
    result = proctor("certify", "last", "-o", "b.svg", "--url", url)
    assert (result.code, "--url " in result.err) == (4, True)


@pytest.mark.parametrize("name", ["javascript:alert(1)", "a#b?c.bundle", "a b%.zip"])
def test_a_bundle_of_any_name_is_linked_as_the_path_that_it_is(proctor: Proctor, run: str, name: str) -> None:
    assert proctor("certify", run, "-o", "b.svg", "-o", "c.md", "--bundle", name).code == 0
    (link,) = ElementTree.fromstring(Path("b.svg").read_text(encoding="utf-8")).iter(f"{SVG}a")
    assert (urlsplit(link.get("href", "")).scheme, unquote(urlsplit(link.get("href", "")).path)) == ("", name)
    assert "](javascript:" not in Path("c.md").read_text(encoding="utf-8")


def test_no_file_is_put_into_a_bundle(proctor: Proctor, run: str) -> None:
    assert proctor("certify", run, "--bundle", "b").code == 0
    before = looks(proctor)
    for words in ((run, "--bundle", "b"), ("b",)):
        result = proctor("certify", *words, "-o", "b/c.json")
        assert (result.code, "inside the bundle" in result.err) == (4, True)
    assert proctor("verify", "b").code == 0
    assert looks(proctor) == before + 1  # the call of `looks` for `before`


# --- a run -------------------------------------------------------------------------------------------------


def test_a_run_is_certified_in_all_forms_with_its_bundle_beside(proctor: Proctor, run: str) -> None:
    result = proctor("certify", run, "-o", "c.json", "-o", "c.md", "-o", "b.svg", "--json")
    certificate = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert result.code == 0
    assert result.json == {**certificate, "exit_code": 0}
    assert certificate["proctor_certificate"] == 1
    assert (certificate["word"], certificate["part"], certificate["total"]) == ("verified", "holdout", 24)
    assert certificate["looks"] == {"rate": 0, "reveal": 0, "until_now": 2}
    bundle = certificate["bundle"]["name"]
    assert proctor("verify", bundle).code == 0
    rate, (low, high) = certificate["pass_rate"], certificate["ci95"]
    text = f"{rate:.1%} verified · n=24 · {low * 100:.0f}–{high:.0%}".replace("%", " %")
    assert badge_text("b.svg") == text
    assert f'<a href="{bundle}">' in Path("b.svg").read_text(encoding="utf-8")
    markdown = Path("c.md").read_text(encoding="utf-8")
    assert f"[![{text}" in markdown
    assert f"](b.svg)]({bundle})" in markdown
    assert "yours" not in markdown


@pytest.mark.slow
def test_certifying_twice_gives_the_same_bundle_and_one_look_more_each_time(
    proctor: Proctor, run: str
) -> None:
    proctor("certify", run)
    assert looks(proctor) == 1
    first, second = (proctor("certify", run, "--json").json for _ in range(2))
    assert first["bundle"]["envelope_sha256"] == second["bundle"]["envelope_sha256"]
    assert second["looks"]["until_now"] == first["looks"]["until_now"] + 1
    assert first["bundle"]["name"] is None
    assert not list(Path().glob("*.bundle"))


@pytest.mark.slow
def test_a_bundle_of_an_unknown_signer_can_be_certified(
    proctor: Proctor, run: str, own_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proctor("certify", run, "-o", "c.json", "--bundle", "b.zip")
    Path("maker.pub.pem").write_bytes((own_keys / "default.pub.pem").read_bytes())
    Path("kept").mkdir()
    monkeypatch.setenv("PROCTOR_KEYS", str(own_keys.parent / "others"))
    result = proctor("certify", "b.zip", "--store", "none.db", "-o", "b.svg")
    assert (result.code, "Self-attested" in result.out) == (0, True)
    assert "self-attested" in badge_text("b.svg")
    assert not Path("none.db").exists()
    assert proctor("keys", "trust", "maker.pub.pem", "--name", "maker").code == 0
    assert proctor("certify", "b.zip", "--json").json["word"] == "verified"


def test_a_run_without_a_holdout_says_so_on_its_certificate(proctor: Proctor, suite: Proctor) -> None:
    rows = [(f"t{n}", f"say {n}", f"say {n}" if n > 4 else "no") for n in range(30)]
    proctor("run", suite(*rows), "--target", "echo", "--no-holdout", "-q")
    result = proctor("certify", "last", "-o", "c.json", "-o", "c.md", "-o", "b.svg")
    sentence = (
        "There is no holdout: this is the pass rate of all cases, and the prompts may be overfitted to them."
    )
    assert result.code == 0
    assert sentence in result.out
    assert sentence in Path("c.md").read_text(encoding="utf-8")
    certificate = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert (certificate["part"], certificate["conditions"]) == ("all", [sentence])
    assert badge_text("b.svg") == "83.3 % verified · n=30 · 66–93 % · no holdout"
    assert "#55650f" in Path("b.svg").read_text(encoding="utf-8"), "olive, by the rate and not its interval"


@pytest.mark.slow
def test_the_documented_workflow_of_30_cases_says_how_many_cases_it_needs(
    proctor: Proctor, suite: Proctor
) -> None:
    proctor("run", suite(*((f"t{n}", "x", "x") for n in range(30))), "--target", "echo", "-q")
    result = proctor("certify", "last")
    assert result.code == 1
    assert (
        "6 holdout cases are not enough; at least 20 are needed. With 20 % held out that is a suite of "
        "100 cases. Write more cases, hold out 67 % of these 30 (--holdout 0.67), or lower the minimum "
        "(--min-cases)."
    ) in result.err
    proctor("run", "s.jsonl", "--target", "echo", "-q", "--holdout", "0.67")
    assert proctor("certify", "last").code == 0
    forced = proctor("certify", "last", "--min-cases", "40", "--force").out
    assert "Forced: 21 holdout cases are not enough; at least 40 are needed.\n" in forced


def test_unsigned_is_self_attested_and_grey(proctor: Proctor, run: str, own_keys: Path) -> None:
    proctor("certify", run, "-o", "b.svg", "--no-sign")
    assert "self-attested" in badge_text("b.svg")
    svg = Path("b.svg").read_text(encoding="utf-8")
    assert "#5d6167" in svg
    assert "Grey: the number is self-attested, and no trusted key signed it.</title>" in svg
    assert not own_keys.exists()


def test_the_link_can_be_changed(proctor: Proctor, run: str) -> None:
    proctor("certify", run, "-o", "b.svg", "-o", "c.md", "--url", 'https://example.org/?a=1&b="2"')
    assert 'href="https://example.org/?a=1&amp;b=' in Path("b.svg").read_text(encoding="utf-8").replace(
        "'", '"'
    )
    assert "](https://example.org/?a=1&b=%222%22)" in Path("c.md").read_text(encoding="utf-8")


def test_too_few_cases_are_refused_and_forced_ones_say_so(proctor: Proctor, half: str) -> None:
    proctor("run", half, "--target", "echo", "--holdout", "0.4", "-q")
    result = proctor("certify", "last", "-o", "b.svg")
    assert result.code == 1
    assert "4 holdout cases are not enough; at least 20 are needed" in result.err
    assert not list(Path().glob("*.bundle"))
    assert not Path("b.svg").exists()
    assert looks(proctor) == 0
    assert proctor("certify", "last", "-o", "b.svg", "--force").code == 0
    assert badge_text("b.svg").endswith("forced: 4 cases")
    assert proctor("certify", "last", "--min-cases", "4").code == 0


def test_errors_are_refused_with_code_3(proctor: Proctor, suite: Proctor, function: Proctor) -> None:
    target = function("def f(text):\n    if '1' in text:\n        raise ValueError('no')\n    return text\n")
    proctor("run", suite(*CASES), "--target", target, "--holdout", "0.9", "-q", "--retries", "0")
    result = proctor("certify", "last", "--json")
    assert result.code == 3
    assert result.json["exit_code"] == 3
    allowed = proctor("certify", "last", "--allow-errors", "40")
    assert allowed.code == 0
    assert "are ERROR or UNSCORED, and are not in the rate, which would be " in allowed.out


def test_a_path_that_is_no_bundle_and_a_run_that_is_none_are_told(proctor: Proctor, run: str) -> None:
    assert proctor("certify", "nothing-here").code == 4
    Path("x.zip").write_bytes(b"PK nonsense")
    assert proctor("certify", "x.zip").code in (1, 4)
    assert proctor("certify", "s.jsonl", "--no-sign").code == 4


# --- a target ----------------------------------------------------------------------------------------------


class Model(JsonHandler):
    """An OpenAI-compatible endpoint whose model passes every check."""

    answer: Callable[[list[dict[str, str]]], str]

    def handle_json(self, body: Any) -> None:
        text = type(self).answer(body["messages"])
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        self.send_json(
            {
                "model": "capable-1",
                "choices": [{"message": {"role": "assistant", "content": text[: 4 * limit]}}],
                "usage": {"prompt_tokens": 10, "completion_tokens": min(limit, len(text) // 4 + 1)},
            }
        )


@pytest.fixture
def endpoint() -> Iterator[str]:
    spec = spec_from_file_location("capable", CAPABLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    Model.answer = module.answer
    with serve_in_thread(Model) as server:
        yield f"openai:capable-1@http://127.0.0.1:{server.server_port}/v1"


@pytest.mark.slow
def test_a_capable_endpoint_is_certified_with_14_of_14(proctor: Proctor, endpoint: str) -> None:
    result = proctor("certify", "--target", endpoint, "--json", "-o", "t.svg", "-o", "t.md", "-o", "t.json")
    certificate = result.json
    assert result.code == 0
    assert (certificate["passed"], certificate["total"], certificate["certified"]) == (14, 14, True)
    assert {check["verdict"] for check in certificate["checks"]} == {"pass"}
    assert certificate["models"] == ["capable-1"]
    assert badge_text("t.svg") == "target 14/14 · certified"
    assert {**json.loads(Path("t.json").read_text(encoding="utf-8")), "exit_code": 0} == certificate
    assert "](t.svg)" in Path("t.md").read_text(encoding="utf-8")


def test_a_constant_target_is_not_certified_and_says_what_is_not_counted(proctor: Proctor) -> None:
    result = proctor("certify", "--target", 'mock:4 {"name":"x"} žluťoučký kůň', "--seed", "7")
    assert result.code == 1
    assert "Not certified: 0 of 14 checks passed (0.0%, 95 % interval 0–22%)" in result.out
    assert result.out.count("NOT COUNTED") == 5


def test_without_any_answer_nothing_was_measured(proctor: Proctor, function: Proctor) -> None:
    result = proctor(
        "certify", "--target", function("def f(x): raise RuntimeError('down')"), "--retries", "0"
    )
    assert result.code == 3
    assert result.out.count("ERROR") == 14


@pytest.mark.slow
def test_a_seed_repeats_a_certificate_and_without_one_each_asks_something_else(
    proctor: Proctor, folder: Path
) -> None:
    shutil.copy(CAPABLE, folder)
    target = ("--target", "function:capable:answer")

    def ask_questions(*words: str) -> tuple[int, list[Any]]:
        certificate = proctor("certify", *target, "--json", *words).json
        return certificate["seed"], [
            question["asked"] for check in certificate["checks"] for question in check["questions"]
        ]

    assert ask_questions("--seed", "5") == ask_questions("--seed", "5")
    first, second = ask_questions(), ask_questions()
    assert first != second
    assert ask_questions("--seed", str(first[0])) == first


def test_a_slow_target_fails_the_latency_check_alone(proctor: Proctor, folder: Path) -> None:
    shutil.copy(CAPABLE, folder)
    result = proctor(
        "certify", "--target", "function:capable:answer", "--json", "--max-latency", "0.000000001"
    )
    verdicts = {check["check"]: check["verdict"] for check in result.json["checks"]}
    assert [name for name, verdict in verdicts.items() if verdict != "pass"] == ["latency"]
    assert result.json["exit_code"] == result.code == 0


def test_what_a_function_prints_is_no_part_of_the_certificate(proctor: Proctor, function: Proctor) -> None:
    result = proctor(
        "certify", "--target", function("def f(x):\n    print('noise')\n    return 'x'"), "--json"
    )
    assert result.json["passed"] == 0


def test_an_unknown_target_is_told(proctor: Proctor) -> None:
    assert proctor("certify", "--target", "nobody:at-all").code == 4
