"""The rule `related-cases`: evidence that cases are related, and its limits."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from proctor.graders import GRADERS
from proctor.lint.linter import Linter
from proctor.lint.related_cases import MAX_GROUPS, MIN_TEXT_LENGTH, RelatedCasesRule
from proctor.model import Attachment, Case, Message, Suite, SuiteDefaults
from proctor.protocols import CaseAtLine
from support.linting import lint_cases

FIELDS = "metadata.document metadata.source_id metadata.conversationId metadata.Doc-ID metadata.file_path"


def case(number: int, context: str = "", **fields: Any) -> Case:
    content = f"{context}Which port has number {number}?"
    return Case(**{"id": f"c{number}", "input": (Message(role="user", content=content),)} | fields)


def message(cases: Iterable[Case]) -> str | None:
    """The warning of the rule for these cases, or None."""
    rule = RelatedCasesRule()
    for member in cases:
        rule.add(member)
    warning = rule.finish()
    return None if warning is None else warning.message


def text(number: int) -> str:
    """A text of more than 200 characters, unlike that of any other number."""
    return " ".join(f"Ship {number} carried {number * 31 + word} barrels." for word in range(12))


# --- evidence ----------------------------------------------------------------------------------------------


def test_the_message_says_what_groups_the_cases_and_how_to_run_them() -> None:
    cases = [case(n, metadata={"document": f"{n // 5}.pdf" if n < 60 else f"alone {n}"}) for n in range(100)]
    assert message(cases) == (
        "Cases look related: 60 of 100 share their `metadata.document` with other cases (12 groups, such as "
        "'0.pdf' with 5 cases), so intervals would be too narrow. Run with `--cluster metadata.document`"
        ", or with `--cluster none` if they are independent."
    )


@pytest.mark.parametrize("field", FIELDS.split())
def test_fields_that_name_a_source_are_evidence(field: str) -> None:
    name = field.removeprefix("metadata.")
    warning = message(case(n, metadata={name: n // 4}) for n in range(40)) or ""
    assert f"Run with `--cluster {field}`" in warning


OTHERS = "topic difficulty author source_type page_number paragraph_index documented context_length"


@pytest.mark.parametrize("name", OTHERS.split())
def test_other_fields_are_none(name: str) -> None:
    assert message(case(n, metadata={name: n // 4}) for n in range(40)) is None


@pytest.mark.parametrize(
    ("tag", "field"),
    [("doc:{}", "tag:doc:"), ("doc-{}", "tag:doc-"), ("source_document/{}", "tag:source_document/")],
)
def test_tags_with_such_a_prefix_are_evidence(tag: str, field: str) -> None:
    warning = message(case(n, tags=("easy", tag.format(n // 4))) for n in range(40)) or ""
    assert f"Run with `--cluster {field}`" in warning


@pytest.mark.parametrize("tag", ["file-{}", "topic:{}", "{}", "docs{}", "session-{}"])
def test_tags_for_topics_are_none(tag: str) -> None:
    words = ("upload", "names", "formats", "locks", "quota", "access", "hash", "list", "copy", "move")
    assert message(case(n, tags=(tag.format(words[n // 4]),)) for n in range(40)) is None


@pytest.mark.parametrize("mark", ["[{}]", "~{}"])
def test_ids_that_differ_only_in_their_variant_are_evidence(mark: str) -> None:
    warning = message(case(n, id=f"port{n // 4}{mark.format(n % 4)}") for n in range(40)) or ""
    assert warning.startswith(
        "Cases look related: 40 of 40 have ids that are the same as those of other cases before `[` or `~`"
    )
    assert "Run with `--cluster id`" in warning


@pytest.mark.parametrize("pattern", ["{}\n\n", "{}\n", "{} ", "Answer by this:\n\n{}\n\n", "Text: {}\n"])
def test_a_text_that_several_prompts_have_is_evidence(pattern: str) -> None:
    warning = message(case(n, pattern.format(text(n // 5))) for n in range(40)) or ""
    assert "40 of 40 share a long text or an attachment in their prompts with other cases (8 gr" in warning
    assert "Add a metadata field for it, such as `document`" in warning


def test_a_text_of_another_turn_and_an_attachment_are_evidence() -> None:
    turns = [
        case(n, input=(Message(role="system", content=text(n // 4)), Message(role="user", content=f"{n}?")))
        for n in range(40)
    ]
    assert "10 groups, such as 'Ship 0 carried" in (message(turns) or "")
    files = [Attachment(kind="image", path=f"{n}.png", data=bytes([n] * 9)) for n in range(10)]
    cases = [case(n, input=(Message(role="user", parts=(f"{n}?", files[n // 4])),)) for n in range(40)]
    assert "10 groups, such as '0.png' with 4 cases" in (message(cases) or "")


def test_a_field_is_named_before_a_text_and_of_fields_that_of_the_most_cases() -> None:
    cases = [
        case(
            n, text(n // 5), metadata={"thread": n // 2 if n < 24 else n, "document": n // 4 if n < 32 else n}
        )
        for n in range(40)
    ]
    assert "32 of 40 share their `metadata.document`" in (message(cases) or "")
    nested = [case(n, metadata={"paragraph": n // 2, "document": n // 4}) for n in range(40)]
    assert "`metadata.document` with other cases (10 groups" in (message(nested) or "")


# --- what is none ------------------------------------------------------------------------------------------


def test_what_most_cases_share_is_a_template() -> None:
    assert message(case(n, text(0)) for n in range(40)) is None
    assert message(case(n, text(n % 2)) for n in range(40)) is None
    assert message(case(n, f"{text(0)}\n\n", metadata={"document": "all.pdf"}) for n in range(40)) is None
    passages = [case(n, f"{text(99)}\n\n{text(n // 5)}\n\n") for n in range(40)]
    assert "40 of 40" in (message(passages) or "")


def test_a_few_large_groups_of_a_source_or_a_text_are_kinds_of_cases() -> None:
    assert message(case(n, metadata={"source": n % 5}) for n in range(200)) is None
    assert message(case(n, text(n % 5)) for n in range(200)) is None
    assert message(case(n, metadata={"document": n % 5}) for n in range(200)) is not None


def test_texts_that_very_many_cases_share_are_templates() -> None:
    assert message(case(n, text(n // 1500)) for n in range(15_000)) is None
    assert message(case(n, text(n // 500)) for n in range(5_000)) is not None


def test_small_suites_few_groups_and_few_related_cases_are_none() -> None:
    assert message(case(n, metadata={"document": n // 2}) for n in range(9)) is None
    assert message(case(n, metadata={"document": n // 2}) for n in range(10)) is not None
    assert message(case(n, metadata={"document": n // 2 if n < 18 else n}) for n in range(40)) is None
    two = [case(n, metadata={"document": n // 10 if n < 20 else n}) for n in range(40)]
    assert message(two) is None


def test_values_that_name_nothing_are_none() -> None:
    values = [None, "", True, ["a"], {"a": 1}, 0.5]
    assert message(case(n, metadata={"document": values[n // 4 % 6]}) for n in range(40)) is None


# --- suites ------------------------------------------------------------------------------------------------


def make_related_cases(lint: Any = None) -> list[Case]:
    cases = [case(n, metadata={"document": n // 4}) for n in range(40)]
    return cases if lint is None else [*cases, case(40, metadata={"lint": lint})]


def test_the_linter_warns_once_about_the_suite_and_not_about_a_case() -> None:
    (problem,) = (problem for problem in lint_cases(*make_related_cases()) if problem.code == "related-cases")
    assert (problem.path, problem.line, problem.case) == ("s.jsonl", None, None)
    assert problem.field == "metadata.document"


@pytest.mark.parametrize("cluster", ["none", "category", "metadata.document"])
def test_a_suite_that_names_its_clusters_is_told_nothing(cluster: str) -> None:
    linter = Linter("s.jsonl", GRADERS.get)
    for line, member in enumerate(make_related_cases(), 1):
        linter.add(CaseAtLine(member, line))
    suite = Suite(name="s", dialect="meridian", defaults=SuiteDefaults(cluster=cluster))
    assert "related-cases" not in {problem.code for problem in linter.finish(suite)}


def test_any_case_and_the_caller_silence_the_rule() -> None:
    assert "related-cases" in {problem.code for problem in lint_cases(*make_related_cases(["leak"]))}
    assert "related-cases" not in {
        problem.code for problem in lint_cases(*make_related_cases(["related-cases"]))
    }
    assert "related-cases" not in {
        problem.code for problem in lint_cases(*make_related_cases(), ignored=("related-cases",))
    }


def test_of_a_sample_of_texts_a_case_that_shares_many_counts_once() -> None:
    """Pairs of cases that share 20 paragraphs each: 240 pairs of 8,000 cases are no evidence, 3,000 are."""

    def suite(pairs: int) -> Iterable[Case]:
        for n in range(8000):
            passage = n // 2 if n < 2 * pairs else n
            texts = [f"Text {passage} {part} ".ljust(MIN_TEXT_LENGTH + 9, "x") for part in range(20)]
            yield case(n, "\n\n".join(texts) + "\n\n")

    assert message(suite(240)) is None
    warning = message(suite(3000)) or ""
    count = int(warning.split("about ")[1].split(" ")[0].replace(",", ""))
    groups = int(warning.split("(about ")[1].split(" ")[0].replace(",", ""))
    assert 5400 < count < 6600
    assert 2700 < groups < 3300


@pytest.mark.slow
def test_of_very_many_groups_a_sample_is_counted_in_little_memory() -> None:
    count = 10 * MAX_GROUPS
    rule = RelatedCasesRule()
    tracemalloc.start()
    for n in range(count):
        rule.add(case(n, metadata={"document": f"document {n // 4}", "url": n}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    problem = rule.finish()
    assert problem is not None
    warning = problem.message
    assert "Cases look related: about " in warning
    groups = int(warning.split("(about ")[1].split(" ")[0].replace(",", ""))
    assert abs(groups - count / 4) < count / 40
    assert peak < 8 * 2**20
