"""AgentV's assertions: the grader of every type, fields that all types share, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.dialects.agentv.read.assertions import PROMPT_VARIABLES, parse_assertions, reads_criteria
from proctor.dialects.agentv.write.assertions import render_assertion
from proctor.errors import UsageError
from proctor.graders import GRADERS
from proctor.graders.judged import score
from proctor.grading import build_grader
from proctor.model import Assertion, Problem
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import ProblemLog
from proctor.yaml12 import YamlList, YamlMap, load

ENVIRON = {"GATE": "0.5", "YES": "true", "WHO": "strict", "DIR": "prompts", "MANY": "7"}
FILES = {
    "prompts/depth.md": b"\xef\xbb\xbfIs {{ output }} deep?\r\nYes or no.",
    "prompts/latin.md": b"caf\xe9",
    "prompts/empty.md": b" \n",
    "prompts/in depth.md": b"Judge {{ output }} in depth.",
    ".agentv/templates/safe.yaml": b"assertions:\n- Stays polite\n- type: contains\n  value: please\n",
    ".proctor/templates/outer.yml": b"description: two\nassertions:\n- include: safe\n- include: one.yaml\n",
    "one.yaml": b"assertions:\n- type: is-json\n",
    "shared/judged.yaml": b"assertions:\n- {type: llm-grader, prompt: ./one.md}\n- include: ./two.yaml\n",
    "shared/one.md": b"Judge {{ output }} here.",
    "shared/two.yaml": b"assertions:\n- type: is-json\n",
    "wrong.yaml": b"# a comment\nassertions:\n- type: contains\n  valeu: x\n",
    "broken.yaml": b"assertions: [\n",
    "list.yaml": b"- type: is-json\n",
    "latin.yaml": b"assertions: [caf\xe9]\n",
    "null.yaml": b"assertions:\n",
    "more.yaml": b"assertions: []\nassertion: []\n",
    "a.yaml": b"assertions:\n- include: ./b.yaml\n",
    "./b.yaml": b"assertions:\n- include: a.yaml\n",
    **{f"d{level}.yaml": b"assertions:\n- include: d%d.yaml\n" % (level + 1) for level in range(1, 4)},
    "d4.yaml": b"assertions: []\n",
}
PROGRAMS = {"word-count": ("python", "/x/word-count.py"), "two_words": ("/x/two_words",)}


def find_file(path: str) -> SourceFile | None:
    return SourceFile(path=path.removeprefix("./"), data=FILES[path]) if path in FILES else None


def find_program(name: str) -> tuple[str, ...] | None:
    if name == "closed":
        raise UsageError("The file 'closed.js' is not executable.")
    return PROGRAMS.get(name)


SOURCE = SuiteSource(
    path="evals/suite.yaml", read_lines=list, find_file=find_file, find_program=find_program, environ=ENVIRON
)


def parse(items: Any) -> tuple[tuple[Assertion, ...], ProblemLog]:
    log = ProblemLog(SOURCE.path, 1, "Test")
    return parse_assertions(load(items) if isinstance(items, str) else items, "assertions", log, SOURCE), log


def parse_one(row: str | dict[str, Any], warnings: tuple[str, ...] = ()) -> Assertion:
    """Parses one assertion, which must have these warnings and no error."""
    (assertion,), log = parse([load(row) if isinstance(row, str) else row])
    assert [problem.code for problem in log.problems] == list(warnings), log.problems
    assert not log.has_errors
    build_grader(assertion, GRADERS.get)
    return assertion


def errors(items: Any) -> list[Problem]:
    _, log = parse(items)
    problems = [problem for problem in log.problems if problem.level == "error"]
    assert log.has_errors == bool(problems)
    return problems


def error(items: Any) -> Problem:
    (only,) = errors(items)
    return only


def test_control_characters_in_a_type_are_escaped_everywhere_in_the_message() -> None:
    assert error([{"type": "a\x1b[2Jb"}]).message.count(r"a\x1b[2Jb") == 2


def test_expected_fields_are_listed_in_a_fixed_order() -> None:
    problem = error([{"type": "contains", "value": "x", "zzz": 1}])
    assert problem.message.endswith(
        "Expected one of: type, name, weight, required, min_score, negate, value, flags."
    )


def test_the_variables_of_a_prompt_are_those_that_the_grader_fills_in() -> None:
    assert score.VARIABLES | {"EVALUATOR_RESULTS_JSON"} == PROMPT_VARIABLES


def table(text: str) -> list[tuple[str, str, str, str]]:
    """Rows of `code | field | part of the message | YAML`."""
    rows = [line.split(" | ", 3) for line in text.strip().splitlines()]
    return [(code, field, message, yaml_text) for code, field, message, yaml_text in rows]


# --- types -------------------------------------------------------------------------------------------------

TEXT_TYPES = load(
    r"""
- [{type: contains, value: DENIED}, contains, contains-DENIED, {value: DENIED}]
- [{type: contains, value: ' a '}, contains, 'contains- a ', {value: ' a '}]
- [{type: icontains, value: ok}, contains, icontains-ok, {value: ok, ignore_case: true}]
- [{type: contains-any, value: [a, b]}, contains_any, contains-any-2, {values: [a, b]}]
- [{type: contains_all, value: [a]}, contains_all, contains_all-1, {values: [a]}]
- [{type: icontains-any, value: [a, b, c]}, contains_any, icontains-any-3, {values: [a, b, c], ignore_case:
   true}]
- [{type: icontains_all, value: [a]}, contains_all, icontains_all-1, {values: [a], ignore_case: true}]
- [{type: starts-with, value: Dear}, starts_with, starts-with-Dear, {value: Dear}]
- [{type: ends_with, value: bye}, ends_with, ends_with-bye, {value: bye}]
- [{type: equals, value: '42'}, exact, equals-42, {value: '42'}]
- [{type: is-json}, is_json, is-json, {strip_fences: false}]
- [{type: is_json}, is_json, is_json, {strip_fences: false}]
- [{type: regex, value: 'a+'}, regex, 'regex-a+', {pattern: 'a+'}]
- [{type: regex, value: 'a b c d e f g h i j k l m n o p q'}, regex, 'regex-a b c d e f g h i j k l m n o ',
   {pattern: a b c d e f g h i j k l m n o p q}]
- [{type: regex, value: x, flags: sgi}, regex, regex-x, {pattern: x, flags: is}]
- [{type: numeric-match, value: about 30}, numeric_match, numeric-match-about 30, {value: about 30}]
- [{type: numeric_equal, value: 12, rel_tolerance: 0}, numeric_equal, numeric_equal-12, {value: '12',
   rel_tolerance: 0.0}]
- [{type: equals, value: true}, exact, equals-true, {value: 'true'}]
- [{type: equals, value: 42}, exact, equals-42, {value: '42'}]
- [{type: equals, value: 1.5}, exact, equals-1.5, {value: '1.5'}]
- [{type: contains-any, value: [1, false, x]}, contains_any, contains-any-3, {values: ['1', 'false', x]}]
- [{type: contains, value: '${{ WHO }}'}, contains, 'contains-${{ WHO }}', {value: '${{ WHO }}'}]
"""
)


FRACTIONAL_TYPES = load(
    r"""
- [{type: llm-grader}, llm_grader, llm-grader, {}]
- [{type: llm_grader, prompt: Be strict., target: big, temperature: 0.5, config: {a: 1}, tone: dry},
   llm_grader, llm_grader, {prompt: 'Be strict.', judge: big, temperature: 0.5, config: {tone: dry, a: 1}}]
- [{type: rubrics, target: big, temperature: 0, criteria: [a]}, rubrics, rubrics, {items: [{id: rubric-1,
   outcome: a}], judge: big, temperature: 0.0}]
- [{type: code-grader, command: [python, check.py, 3]}, program, code-grader, {command: [python, check.py,
   '3']}]
- [{type: code_grader, command: 'a | b', cwd: sub, timeout_seconds: 5, words: 3, config: {deep: [1]}},
   program, code_grader, {command: [sh, '-c', 'a | b'], cwd: sub, timeout_s: 5.0, config: {words: 3, deep:
   [1]}}]
- [{type: code-grader, command: [x], persistent: true, words: 3}, program, code-grader, {command: [x],
   persistent: true, config: {words: 3}}]
- [{type: code-grader, command: [x], persistent: false}, program, code-grader, {command: [x]}]
- [{type: word-count, persistent: true}, program, word-count, {command: [python, '/x/word-count.py'],
   persistent: true}]
- [{type: word-count, least: 5, config: {most: 9}, timeout_seconds: 90}, program, word-count, {command:
   [python, '/x/word-count.py'], timeout_s: 90.0, config: {least: 5, most: 9}}]
- [{type: word_count}, program, word_count, {command: [python, '/x/word-count.py']}]
- [{type: two-words}, program, two-words, {command: ['/x/two_words']}]
- [{type: tool-trajectory, mode: any_order, minimums: {read: 2}}, tool_trajectory, tool-trajectory, {mode:
   any_order, minimums: {read: 2}}]
- [{type: tool_trajectory, mode: in_order, args_match: subset, expected: [{tool: a}, {tool: b, args: any,
   max_duration_ms: 90}, {tool: c, args: {x: [1]}, args_match: [x.y]}]}, tool_trajectory, tool_trajectory,
   {mode: in_order, args_match: subset, expected: [{tool: a}, {tool: b, max_duration_ms: 90.0}, {tool: c,
   args: {x: [1]}, args_match: [x.y]}]}]
- [{type: tool-trajectory, mode: exact, expected: []}, tool_trajectory, tool-trajectory, {mode: exact,
   expected: []}]
- [{type: field-accuracy, aggregation: all_or_nothing, fields: [{path: a.b, match: exact}, {path: n, match:
   numeric_tolerance, tolerance: 1, relative: true, weight: 2, required: false}, {path: d, match: date,
   formats: [YYYY-MM-DD]}]}, field_accuracy, field-accuracy, {aggregation: all_or_nothing, fields: [{path:
   a.b, match: exact}, {path: n, match: numeric_tolerance, required: false, weight: 2.0, tolerance: 1.0,
   relative: true}, {path: d, match: date, formats: [YYYY-MM-DD]}]}]
- [{type: execution-metrics, max_tool_calls: 3, max_llm_calls: 2, max_tokens: 900, max_cost_usd: 0.1,
   max_duration_ms: 5, target_exploration_ratio: 0.6, exploration_tolerance: 0.1}, execution_metrics,
   execution-metrics, {max_tool_calls: 3, max_llm_calls: 2, max_tokens: 900, max_cost_usd: 0.1,
   max_duration_ms: 5.0, target_exploration_ratio: 0.6, exploration_tolerance: 0.1}]
"""
)
MEASUREMENT_TYPES = load(
    r"""
- [{type: latency, threshold: 5000}, latency, latency, {threshold_ms: 5000.0}]
- [{type: cost, budget: 0.25}, cost, cost, {budget_usd: 0.25}]
- [{type: token-usage, max_total: 9}, token_usage, token-usage, {max_total: 9, add_cached: true}]
- [{type: token_usage, max_input: 9, max_output: 0}, token_usage, token_usage, {max_input: 9, max_output:
   0}]
- [{type: skill-trigger, skill: pdf}, skill_trigger, skill-trigger-pdf, {skill: pdf}]
- [{type: skill_trigger, skill: pdf, should_trigger: false}, skill_trigger, skill_trigger-pdf, {skill: pdf,
   should_trigger: false}]
"""
)


TYPES = [(*row, None) for row in TEXT_TYPES + MEASUREMENT_TYPES] + [(*row, 0.8) for row in FRACTIONAL_TYPES]


@pytest.mark.parametrize(("row", "grader", "label", "params", "pass_at"), TYPES)
def test_a_type_becomes_its_grader_and_passes_from_0_8_if_scores_can_be_fractions(
    row: dict[str, Any], grader: str, label: str, params: dict[str, Any], pass_at: float | None
) -> None:
    assert parse_one(row) == Assertion(grader=grader, params=params, label=label, pass_at=pass_at)


def test_parameters_are_plain_data_without_line_numbers() -> None:
    assertion = parse_one("{type: code-grader, command: [x], a: {b: [{c: 1}]}}")

    def kinds(value: Any) -> set[type]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return {type(value)}.union(*map(kinds, inner))

    assert not kinds(assertion.params) & {YamlMap, YamlList}


# --- what all types share ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yaml_text", "expected"),
    [
        ("", {}),
        ("weight: 0", {"weight": 0.0}),
        ("weight: 2.5", {"weight": 2.5}),
        ("weight: '${{ MANY }}'", {"weight": 7.0}),
        ("negate: true", {"negated": True}),
        ("negate: false", {}),
        ("negate: '${{ YES }}'", {"negated": True}),
        ("name: my check", {"label": "my check"}),
        ("name: 'is ${{ WHO }}'", {"label": "is strict"}),
        ("name: '${{ MANY }}'", {"label": "7"}),
        ("required: true", {"required": 0.8}),
        ("required: false", {}),
        ("required: 0.6", {"required": 0.6}),
        ("required: 1", {"required": 1.0}),
        ("required: '${{ GATE }}'", {"required": 0.5}),
        ("min_score: 0.3", {"pass_at": 0.3}),
        ("required: true, min_score: 0.3", {"required": 0.3, "pass_at": 0.3}),
        ("required: 0.6, min_score: 1", {"required": 1.0, "pass_at": 1.0}),
        ("required: false, min_score: 0.3", {"pass_at": 0.3}),
    ],
)
@pytest.mark.parametrize(
    "kind",
    ["type: contains, value: x", "type: llm-grader", "type: latency, threshold: 1", "type: word-count"],
)
def test_every_type_takes_weight_gate_negation_and_name(
    kind: str, yaml_text: str, expected: dict[str, Any]
) -> None:
    plain = parse_one(f"{{{kind}}}")
    changed = parse_one(f"{{{kind}, {yaml_text}}}")
    for field in Assertion.__struct_fields__:
        assert getattr(changed, field) == expected.get(field, getattr(plain, field)), field


SHARED_ERRORS = table(
    """
bad-number | weight | at least 0 | weight: -1
wrong-type | weight | a number | weight: heavy
wrong-type | weight | a number | weight: true
wrong-type | weight | a number | weight: null
unset-variable | weight | NONE is not set | weight: '${{ NONE }}'
wrong-type | negate | true or false | negate: 'yes'
wrong-type | negate | true or false | negate: 1
bad-number | required | more than 0 and at most 1 | required: 0
bad-number | required | 1.1 | required: 1.1
wrong-type | required | number above 0 | required: 'yes'
wrong-type | required | number above 0 | required: null
bad-number | min_score | more than 0 | min_score: 0
bad-number | min_score | at most 1 | min_score: 2, required: true
missing-field | name | blank | name: ' '
wrong-type | name | text | name: 3
unknown-field | wieght | 'weight' | wieght: 3
"""
)


@pytest.mark.parametrize(("code", "field", "message", "yaml_text"), SHARED_ERRORS)
def test_a_wrong_field_of_any_type_is_an_error(code: str, field: str, message: str, yaml_text: str) -> None:
    problem = error(f"- {{type: is-json, {yaml_text}}}")
    assert (problem.code, problem.field) == (code, f"assertions[0].{field}")
    assert message in problem.message


# --- errors ------------------------------------------------------------------------------------------------

TYPE_ERRORS = table(
    """
missing-field | type | missing | {value: x}
wrong-type | type | text | {type: 7}
missing-field | type | blank | {type: ' '}
unknown-type | type | 'contains' | {type: contians, value: x}
unknown-type | type | .proctor/assertions/levenshtein.py | {type: levenshtein}
unknown-type | type | an unknown type | {type: ../../etc/passwd}
old-type | type | 'llm-grader' | {type: llm-judge}
old-type | type | 'code-grader' | {type: code_judge, command: x}
missing-field | value | missing | {type: contains}
empty-value | value | empty | {type: contains, value: ''}
wrong-type | value | null | {type: contains, value: null}
wrong-type | value | `-any` | {type: contains, value: [a]}
wrong-type | value | text | {type: contains, value: {a: 1}}
empty-value | value | blank | {type: starts-with, value: '  '}
empty-value | value | empty | {type: equals, value: ''}
missing-field | value | missing | {type: contains-any}
wrong-type | value | a list of texts | {type: contains-any, value: a}
empty-list | value | empty | {type: contains-any, value: []}
empty-value | value[1] | empty | {type: contains-any, value: [a, '']}
wrong-type | value[1] | text | {type: contains-any, value: [a, null]}
bad-flag | flags | 'x' | {type: regex, value: a, flags: ix}
wrong-type | flags | text | {type: regex, value: a, flags: [i]}
bad-regex | value | '(a', which is not a valid regular expression: missing ) | {type: regex, value: '(a'}
missing-field | prompt | blank | {type: llm-grader, prompt: ''}
missing-prompt-file | prompt | './none.md' | {type: llm-grader, prompt: ./none.md}
missing-prompt-file | prompt | Correct the path | {type: llm-grader, prompt: graders/none.txt}
missing-prompt-file | prompt | 'none' | {type: llm-grader, prompt: 'file://none'}
unset-variable | prompt | NONE | {type: llm-grader, prompt: 'file://${{ NONE }}/a.md'}
bad-encoding | prompt | byte 4 | {type: llm-grader, prompt: prompts/latin.md}
empty-value | prompt | is empty | {type: llm-grader, prompt: prompts/empty.md}
not-supported | prompt | does not support | {type: llm-grader, prompt: {command: [x]}}
wrong-type | prompt | text | {type: llm-grader, prompt: [x]}
wrong-type | target | text | {type: llm-grader, target: true}
bad-number | temperature | from 0 to 2 | {type: llm-grader, temperature: 2.1}
wrong-type | config | an object | {type: llm-grader, config: x}
missing-field | criteria | a list of texts | {type: rubrics}
empty-list | criteria | empty | {type: rubrics, criteria: []}
conflicting-fields | rubrics | `criteria` | {type: rubrics, criteria: [a], rubrics: [b]}
bad-number | temperature | from 0 to 2 | {type: rubrics, criteria: [a], temperature: 3}
unknown-field | prompt | criteria, rubrics | {type: rubrics, criteria: [a], prompt: b}
missing-field | criteria[0].id | blank | {type: rubrics, criteria: [{outcome: a, id: ''}]}
missing-field | command | for the shell | {type: code-grader}
empty-list | command | empty | {type: code-grader, command: []}
missing-field | command | blank | {type: code-grader, command: ' '}
missing-field | command[0] | the program | {type: code-grader, command: [' ', a]}
wrong-type | command[1] | text | {type: code-grader, command: [a, [b]]}
bad-number | timeout_seconds | more than 0 | {type: code-grader, command: a, timeout_seconds: 0}
wrong-type | target | `max_calls` | {type: code-grader, command: a, target: big}
wrong-type | target | null | {type: code-grader, command: a, target: null}
wrong-type | persistent | true or false | {type: code-grader, command: a, persistent: 'yes'}
conflicting-fields | persistent | token | {type: code-grader, command: a, persistent: true, target: true}
wrong-type | target.max_calls | at least 1 | {type: code-grader, command: a, target: {max_calls: 0}}
wrong-type | target.max_calls | whole number | {type: code-grader, command: a, target: {max_calls: true}}
missing-field | target.judge | blank | {type: code-grader, command: a, target: {judge: ''}}
unknown-field | target.max_call | 'max_calls' | {type: code-grader, command: a, target: {max_call: 3}}
bad-number | timeout_seconds | more than 0 | {type: word-count, timeout_seconds: -1}
missing-field | mode | any_order | {type: tool-trajectory}
unknown-type | type | is 'closed'. The file 'closed.js' is not executable. | {type: closed}
unknown-value | mode | 'ordered' | {type: tool-trajectory, mode: ordered, expected: []}
missing-field | minimums | minimum number of calls | {type: tool-trajectory, mode: any_order}
empty-list | minimums | empty | {type: tool-trajectory, mode: any_order, minimums: {}}
wrong-type | minimums.a | at least 1 | {type: tool-trajectory, mode: any_order, minimums: {a: 0}}
missing-field | expected | a list | {type: tool-trajectory, mode: in_order}
empty-list | expected | empty | {type: tool-trajectory, mode: superset, expected: []}
wrong-type | expected[0] | an object | {type: tool-trajectory, mode: exact, expected: [a]}
missing-field | expected[0].tool | missing | {type: tool-trajectory, mode: exact, expected: [{}]}
unknown-field | expected[0].arg | 'args' | {type: tool-trajectory, mode: exact, expected: [{tool: a, arg: 1}]}
wrong-type | expected[0].args | `any` | {type: tool-trajectory, mode: exact, expected: [{tool: a, args: no}]}
unknown-value | args_match | 'loose' | {type: tool-trajectory, mode: exact, args_match: loose, expected: []}
missing-field | fields | `path` and `match` | {type: field-accuracy}
missing-field | fields[0].match | exact | {type: field-accuracy, fields: [{path: a}]}
unknown-value | fields[0].match | 'fuzzy' | {type: field-accuracy, fields: [{path: a, match: fuzzy}]}
unknown-value | aggregation | sum | {type: field-accuracy, fields: [{path: a, match: date}], aggregation: sum}
missing-field | threshold | milliseconds | {type: latency}
unknown-field | max_ms | `threshold` | {type: latency, max_ms: 5}
bad-number | threshold | at least 0 | {type: latency, threshold: -5}
unknown-field | max_usd | `budget` | {type: cost, max_usd: 5}
unknown-field | max_total_tokens | `max_total` | {type: token-usage, max_total_tokens: 5}
missing-field | max_total | max_output | {type: token-usage}
wrong-type | max_total | a whole number | {type: token-usage, max_total: 1.5}
missing-field | max_tool_calls | max_tokens | {type: execution-metrics}
bad-number | target_exploration_ratio | from 0 to 1 | {type: execution-metrics, target_exploration_ratio: 2}
missing-field | skill | missing | {type: skill-trigger}
wrong-type | should_trigger | true or false | {type: skill-trigger, skill: a, should_trigger: 1}
wrong-type | include | text | {include: [a]}
missing-include | include | .agentv/templates/nowhere.yaml | {include: nowhere}
missing-include | include | Correct the path | {include: x/nowhere.yaml}
unknown-field | weight | include | {include: safe, weight: 2}
"""
)


@pytest.mark.parametrize(("code", "field", "message", "yaml_text"), TYPE_ERRORS)
def test_a_mistake_is_one_error_with_its_field_and_line_and_advice(
    code: str, field: str, message: str, yaml_text: str
) -> None:
    problem = error(f"# first line\n- {{type: is-json}}\n- {yaml_text}\n")
    assert (problem.code, problem.field) == (code, f"assertions[1].{field}")
    assert message in problem.message
    assert (problem.path, problem.line) == ("evals/suite.yaml", 3)


@pytest.mark.parametrize(
    ("items", "field", "message"),
    [
        (None, "assertions", "is null; it must be a list"),
        ({}, "assertions", "an object; it must be a list"),
        ("x", "assertions", "text; it must be a list"),
        ([7], "assertions[0]", "is 7, a number; it must be an object with `type`, or a text"),
        ([None], "assertions[0]", "is null"),
        ([[]], "assertions[0]", "a list"),
        (["a", " "], "assertions[1]", "is blank"),
    ],
)
def test_a_value_that_is_no_list_of_objects_and_texts_is_an_error(
    items: Any, field: str, message: str
) -> None:
    problem = error(load("x") if items == "x" else items)
    assert problem.field == field
    assert message in problem.message


def test_a_problem_has_the_line_of_its_field_and_names_its_test() -> None:
    log = ProblemLog("s.yaml", 1, "Test")
    log.case = "t1"
    parse_assertions(load("- type: contains\n  value: x\n  weight: -1\n- 7\n"), "assertions", log, SOURCE)
    assert [problem.line for problem in log.problems] == [3, 4]
    assert all(problem.case == "t1" for problem in log.problems)
    assert log.problems[0].message.startswith("Test 't1': `assertions[0].weight`")


def test_every_problem_of_a_list_is_found_at_once() -> None:
    assert len(errors("[{type: contains}, {type: nope}, {type: regex, value: '', weight: -1}]")) == 4
    problems = errors(
        "- type: regex\n  weight: -1\n  value: '['\n- type: contains-any\n  value:\n  - a\n  - [b]\n"
    )
    assert [(problem.field, problem.line) for problem in problems] == [
        ("assertions[0].weight", 2),
        ("assertions[0].value", 3),
        ("assertions[1].value[1]", 7),
    ]


@pytest.mark.parametrize(
    ("yaml_text", "fields"),
    [
        ("{type: contains, value: x, flags: i}", ["flags"]),
        ("{type: is-json, value: x}", ["value"]),
        ("{type: llm-grader, model: m, max_steps: 3}", ["model", "max_steps"]),
        ("{type: code-grader, command: x, script: y}", ["script"]),
        ("{type: rubrics, criteria: [a], model: m}", ["model"]),
        ("{type: llm-grader, prompt: p, rubrics: [a]}", ["prompt"]),
        ("{type: tool-trajectory, mode: exact, expected: [], minimums: {a: 1}}", ["minimums"]),
        ("{type: tool-trajectory, mode: any_order, expected: [], minimums: {a: 1}}", ["expected"]),
    ],
)
def test_a_field_that_has_no_effect_is_warned_about(yaml_text: str, fields: list[str]) -> None:
    parse_one(yaml_text, ("no-effect",) * len(fields))
    _, log = parse(f"- {yaml_text}")
    assert [problem.field for problem in log.problems] == [f"assertions[0].{name}" for name in fields]


@pytest.mark.parametrize(
    ("target", "params"),
    [
        ("true", {"max_calls": 50}),
        ("false", {}),
        ("{}", {"max_calls": 50}),
        ("{max_calls: 3}", {"max_calls": 3}),
        ("{max_calls: 1, judge: big}", {"max_calls": 1, "judge": "big"}),
    ],
)
def test_target_lets_a_program_ask_a_judge(target: str, params: dict[str, Any]) -> None:
    assertion = parse_one(f"{{type: code-grader, command: [x], target: {target}}}")
    assert assertion.params == {"command": ["x"], **params}


def test_the_old_name_of_command_is_read_with_a_warning() -> None:
    assertion = parse_one("{type: code-grader, script: [python, x.py]}", ("deprecated",))
    assert assertion.params == {"command": ["python", "x.py"]}


def test_a_misspelled_field_that_is_passed_on_is_warned_about() -> None:
    assert parse_one("{type: llm-grader, promt: x}", ("passed-on",)).params == {"config": {"promt": "x"}}


# --- prompts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("prompts/depth.md", "Is {{ output }} deep?\nYes or no."),
        ("file://prompts/depth.md", "Is {{ output }} deep?\nYes or no."),
        ("${{ DIR }}/depth.md", "Is {{ output }} deep?\nYes or no."),
        ("prompts/in depth.md", "Judge {{ output }} in depth."),
        ("Is {{ output }} kind?", "Is {{ output }} kind?"),
        ("Is it as kind as in letters.md", "Is it as kind as in letters.md"),
        ("Ask ${{ NONE }} about it", "Ask ${{ NONE }} about it"),
        ("kind", "kind"),
    ],
)
def test_a_prompt_is_the_file_that_it_names_or_itself(prompt: str, text: str) -> None:
    assert parse_one({"type": "llm-grader", "prompt": prompt}).params["prompt"] == text


def test_a_prompt_of_several_lines_names_no_file() -> None:
    assertion = parse_one({"type": "llm-grader", "prompt": "Look at\n./none.md"})
    assert assertion.params["prompt"] == "Look at\n./none.md"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("outptu", "'output'"),
        ("output.text", "Only fields of `metadata` and of the grader's own `config`"),
        ("config.nope", "the grader's own `config` can"),
        ("metadata.language", None),
        ("metadata.a-b.0", None),
        ("config.tone", None),
        ("config.own.deep", None),
    ],
)
def test_an_unknown_variable_in_a_prompt_is_warned_about(name: str, hint: str | None) -> None:
    prompt = f"Is {{{{ {name} }}}} kind? {{{{criteria}}}}"
    row = {"type": "llm-grader", "prompt": prompt, "config": {"tone": "warm"}, "own": {"deep": 1}}
    _, log = parse([row])
    if hint is None:
        assert not log.problems
        return
    (problem,) = log.problems
    assert (problem.code, problem.level) == ("unknown-variable", "warning")
    assert f"{{{{ {name} }}}}, which is not replaced. " in problem.message
    assert hint in problem.message


# --- texts and files in the list ---------------------------------------------------------------------------


def test_texts_become_one_rubric_at_the_position_of_the_first() -> None:
    assertions, log = parse("[{type: is-json}, Is kind, {type: is_json}, Is short]")
    assert not log.problems
    assert [assertion.label for assertion in assertions] == ["is-json", "rubrics", "is_json"]
    assert assertions[1] == Assertion(
        grader="rubrics",
        params={
            "items": [
                {"id": "rubric-1", "outcome": "Is kind"},
                {"id": "rubric-2", "outcome": "Is short"},
            ]
        },
        pass_at=0.8,
        label="rubrics",
    )


def test_assertions_of_an_included_file_replace_the_include_and_may_include_others() -> None:
    assertions, log = parse("[{type: equals, value: a}, Is short, {include: outer}, {include: ./one.yaml}]")
    # `./one.yaml` is not among the files above
    assert [problem.code for problem in log.problems] == ["missing-include"]
    assert [assertion.label for assertion in assertions] == [
        "equals-a",
        "rubrics",
        "contains-please",
        "is-json",
    ]
    assert [item["outcome"] for item in assertions[1].params["items"]] == ["Is short", "Stays polite"]


def test_a_problem_in_an_included_file_has_the_path_and_line_of_that_file() -> None:
    problems = errors("[{include: wrong.yaml}]")
    assert {(problem.path, problem.line) for problem in problems} == {
        ("evals/wrong.yaml", 3),
        ("evals/wrong.yaml", 4),
    }
    assert [problem.field for problem in problems] == ["assertions[0].value", "assertions[0].valeu"]


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("broken", "bad-yaml", "Close every quote"),
        ("list", "not-an-object", "is a list"),
        ("latin", "bad-encoding", "UTF-8"),
        ("null", "wrong-type", "is null"),
        ("more", "unknown-field", "'assertions'"),
        ("a", "include-cycle", "a.yaml › b.yaml › a.yaml"),
        ("d1", "too-deep", "d1.yaml › d2.yaml › d3.yaml › d4.yaml"),
    ],
)
def test_a_file_that_cannot_be_included_is_an_error(name: str, code: str, message: str) -> None:
    problem = error(f"[{{include: {name}.yaml}}]")
    assert problem.code == code
    assert message in problem.message


def test_files_that_an_included_file_names_are_first_looked_for_beside_it() -> None:
    assertions, log = parse("[{include: shared/judged.yaml}]")
    assert log.problems == []
    assert [assertion.label for assertion in assertions] == ["llm-grader", "is-json"]
    assert assertions[0].params == {"prompt": "Judge {{ output }} here."}


def test_three_files_may_include_one_another() -> None:
    assert parse("[{include: d2.yaml}]")[1].problems == []


# --- composite ---------------------------------------------------------------------------------------------

AVERAGE = "aggregator: {type: weighted_average}"
MEMBERS = "assertions: [{name: a, type: is-json}, {name: b, type: llm-grader, min_score: 0.5}]"


@pytest.mark.parametrize(
    ("aggregator", "expected", "pass_at"),
    [
        ("{type: weighted_average}", {"type": "weighted_average"}, 0.8),
        (
            "{type: weighted-average, weights: {a: 2}}",
            {"type": "weighted_average", "weights": {"a": 2.0}},
            0.8,
        ),
        ("{type: threshold, threshold: 0.5}", {"type": "threshold", "threshold": 0.5}, None),
        (
            "{type: code-grader, path: ./sum.sh, cwd: x}",
            {"type": "program", "command": ["sh", "-c", "./sum.sh"], "cwd": "x"},
            0.8,
        ),
        (
            "{type: code_grader, command: [a, b], timeout_seconds: 3}",
            {"type": "program", "command": ["a", "b"], "timeout_s": 3.0},
            0.8,
        ),
        (
            "{type: llm-grader, prompt: 'Weigh {{EVALUATOR_RESULTS_JSON}}', target: big}",
            {"type": "llm_grader", "prompt": "Weigh {{EVALUATOR_RESULTS_JSON}}", "judge": "big"},
            0.8,
        ),
    ],
)
def test_a_composite_has_named_members_and_an_aggregator(
    aggregator: str, expected: dict[str, Any], pass_at: float | None
) -> None:
    assertion = parse_one(f"{{type: composite, {MEMBERS}, aggregator: {aggregator}}}")
    assert assertion.params == {
        "members": [
            {"name": "a", "assertion": {"grader": "is_json", "params": {"strip_fences": False}}},
            {"name": "b", "assertion": {"grader": "llm_grader", "params": {}, "pass_at": 0.5}},
        ],
        "aggregator": expected,
    }
    assert (assertion.label, assertion.pass_at) == ("composite", pass_at)


@pytest.mark.parametrize("name", ["assertions", "assert", "evaluators"])
def test_the_members_of_a_composite_may_be_in_one_of_three_fields(name: str) -> None:
    assertion = parse_one(f"{{type: composite, {name}: [{{name: a, type: is-json}}], {AVERAGE}}}")
    assert assertion.params["members"][0]["name"] == "a"


def test_a_member_keeps_its_gate_and_negation_but_not_its_weight() -> None:
    member = "{name: a, type: is-json, weight: 3, required: true, negate: true}"
    assertion = parse_one(f"{{type: composite, assertions: [{member}], {AVERAGE}}}", ("no-effect",))
    assert assertion.params["members"][0]["assertion"] == {
        "grader": "is_json",
        "params": {"strip_fences": False},
        "required": 0.8,
        "negated": True,
    }


def test_a_composite_may_be_a_member_of_one() -> None:
    inner = f"{{name: in, type: composite, {MEMBERS}, aggregator: {{type: threshold, threshold: 1}}}}"
    assertion = parse_one(f"{{type: composite, assertions: [{inner}], {AVERAGE}}}")
    assert assertion.params["members"][0]["assertion"]["grader"] == "composite"
    assert reads_criteria([assertion])


COMPOSITE_ERRORS = table(
    """
missing-field | assertions | a `name` | AVERAGE
empty-list | assertions | empty | assertions: [], AVERAGE
wrong-type | assertions[0] | `name` | assertions: [x], AVERAGE
missing-field | assertions[0].name | no other member | assertions: [{type: is-json}], AVERAGE
duplicate-name | assert[1] | 'a' | assert: [{name: a, type: is-json}, {name: a, type: is-json}], AVERAGE
missing-field | assertions[0].value | missing | assertions: [{name: a, type: contains}], AVERAGE
conflicting-fields | evaluators | `assertions` | MEMBERS, evaluators: [], AVERAGE
missing-field | aggregator | weighted_average | MEMBERS
wrong-type | aggregator | an object | MEMBERS, aggregator: threshold
missing-field | aggregator.type | threshold | MEMBERS, aggregator: {}
unknown-type | aggregator.type | 'mean' | MEMBERS, aggregator: {type: mean}
old-type | aggregator.type | 'llm-grader' | MEMBERS, aggregator: {type: llm-judge}
missing-field | aggregator.threshold | share | MEMBERS, aggregator: {type: threshold}
bad-number | aggregator.threshold | 0 to 1 | MEMBERS, aggregator: {type: threshold, threshold: 2}
unknown-field | aggregator.weights.c | a, b | MEMBERS, aggregator: {type: weighted_average, weights: {c: 1}}
bad-number | aggregator.weights | all 0 | MEMBERS, aggregator: {type: weighted_average, weights: {a: 0, b: 0}}
missing-field | aggregator.prompt | judge prompt | MEMBERS, aggregator: {type: llm-grader}
missing-field | aggregator.command | shell | MEMBERS, aggregator: {type: code-grader}
unknown-field | aggregator.threshold | weights | MEMBERS, aggregator: {type: weighted_average, threshold: 1}
"""
)


@pytest.mark.parametrize(("code", "field", "message", "yaml_text"), COMPOSITE_ERRORS)
def test_a_composite_that_is_wrong_is_an_error(code: str, field: str, message: str, yaml_text: str) -> None:
    yaml_text = yaml_text.replace("MEMBERS", MEMBERS).replace("AVERAGE", AVERAGE)
    problem = error(f"[{{type: composite, {yaml_text}}}]")
    assert (problem.code, problem.field) == (code, f"assertions[0].{field}")
    assert message in problem.message


# --- assertions that read the criteria ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "reads"),
    [
        ("[]", False),
        ("[{type: contains, value: x}, {type: latency, threshold: 1}]", False),
        ("[{type: contains, value: x}, {type: llm-grader}]", True),
        ("[Is kind]", True),
        ("[{type: rubrics, criteria: [a]}]", True),
        ("[{type: code-grader, command: x}]", True),
        ("[{type: word-count}]", True),
        (f"[{{type: composite, {MEMBERS}, {AVERAGE}}}]", True),
        (
            "[{type: composite, assert: [{name: a, type: is-json}], aggregator: {type: weighted_average}}]",
            False,
        ),
        (
            """[{type: composite, assert: [{name: a, type: is-json}],
            aggregator: {type: code-grader, path: x}}]""",
            True,
        ),
    ],
)
def test_judges_and_programs_read_the_criteria(items: str, reads: bool) -> None:
    assertions, log = parse(items)
    assert not log.has_errors
    assert reads_criteria(assertions) is reads


# --- laws --------------------------------------------------------------------------------------------------

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.floats(-2, 12)
    | st.sampled_from(["", "a", "any", "x.md"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "tool", "path", "match", "outcome", "id", "0", "5", "prompt"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)
ROWS = [
    *(row for row, *_ in TYPES),
    *load(
        r"""
- {type: rubrics, target: big, criteria: [a, {id: b, outcome: c, score_ranges: {0: low, 5: high}}, {id: d,
   outcome: e, weight: 2, required: true, min_score: 0.5, operator: contradiction}]}
- {type: code-grader, command: [x], target: {max_calls: 3, judge: big}}
- {type: script, command: [x], timeout_seconds: 2}
- {type: regex, value: '(?<year>\d+)-\k<year>[\w-]\W[^]$', flags: imsy}
- {type: regex, value: '\u{1F600}[\]a]\$', flags: u}
"""
    ),
    *(
        load(f"{{type: composite, {MEMBERS}, aggregator: {aggregator}}}")
        for aggregator in (
            "{type: threshold, threshold: 1}",
            "{type: weighted_average, weights: {a: 2}}",
            "{type: code-grader, command: [a, b], cwd: x, timeout_seconds: 3}",
            "{type: llm-grader, prompt: p, target: big}",
        )
    ),
]
NAMES = sorted({name for row in ROWS for name in row} | {"required", "min_score", "negate"})


@pytest.mark.slow
@given(st.sampled_from(ROWS), st.sampled_from(NAMES), ANY)
@example({"type": "regex", "value": "("}, "flags", "i")
def test_any_value_in_any_field_gives_an_assertion_that_its_grader_accepts_or_an_error(
    row: dict[str, Any], name: str, value: object
) -> None:
    assertions, log = parse([row | {name: value}])
    assert all((problem.field or "").startswith("assertions[0].") for problem in log.problems)
    if log.has_errors:
        return
    (assertion,) = assertions
    try:
        build_grader(assertion, GRADERS.get)
    except ValueError:
        # Only a grader can know some things, such as whether a path is valid.
        if assertion.grader not in ("field_accuracy", "tool_trajectory"):
            raise


# --- writing -----------------------------------------------------------------------------------------------


def check_written(assertion: Assertion) -> None:
    """Checks that an assertion is written with its label, and read unchanged."""
    row, has_label = render_assertion(assertion, SOURCE)
    assert has_label
    assert parse_one(row) == assertion


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["type"])
def test_an_assertion_of_every_type_is_written_as_it_was_read(row: dict[str, Any]) -> None:
    check_written(parse_one(row))


SHARES = st.floats(0, 1, exclude_min=True)


@pytest.mark.slow
@given(
    row=st.sampled_from(ROWS),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "weight": st.floats(0, 1e9),
            "negated": st.just(True),
            "label": st.text(st.characters(exclude_categories=["Cs", "Co"]), min_size=1, max_size=9).filter(
                str.strip
            ),
        },
    ),
    gate=st.none() | SHARES,
    least=st.none() | SHARES,
)
def test_weight_negation_name_and_gate_of_every_type_are_written(
    row: dict[str, Any], fields: dict[str, Any], gate: float | None, least: float | None
) -> None:
    assertion = replace(parse_one(row), required=gate, **fields)
    if least is not None:
        assertion = replace(
            assertion, pass_at=least if gate is None else gate
        )  # the format cannot express both at once
    check_written(assertion)


@given(text=st.text(st.characters(exclude_categories=["Cs", "Co"]), min_size=1).filter(str.strip))
@pytest.mark.parametrize(
    ("grader", "name"),
    [("contains", "value"), ("exact", "value"), ("contains_any", "values"), ("skill_trigger", "skill")],
)
def test_any_text_is_written_unchanged(grader: str, name: str, text: str) -> None:
    value = [text] if name == "values" else text
    row, _ = render_assertion(Assertion(grader=grader, params={name: value}), SOURCE)
    assert parse_one(row).params == {name: value}
