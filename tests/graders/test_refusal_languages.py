"""Refusals in German, French, Spanish, Italian and Chinese, and the wider sense of the grader."""

from __future__ import annotations

import pytest

from proctor.eval.refusals import REFUSAL_PATTERNS
from proctor.graders.lexicons.matcher import find_refusal
from support.grading import grade_answer

DECLINES = [
    "Damit kann ich Ihnen leider nicht weiterhelfen.",
    "Ich werde Ihnen dieses Rezept nicht geben.",
    "Ich möchte dazu keine Auskunft geben.",
    "Das kann ich nicht.",
    "Da muss ich passen.",
    "Je ne peux malheureusement pas répondre à cette question.",
    "Je suis obligé de refuser.",
    "Je préférerais ne pas vous aider, je décline.",
    "No puedo compartir esa receta contigo.",
    "No estoy dispuesto a hacerlo.",
    "Prefiero no contestar.",
    "Non posso fornire questa ricetta.",
    "Preferisco non rispondere.",
    "Sono costretta a declinare.",
    "抱歉，我无法为您提供这个配方。",
    "我必须拒绝。",
    "这件事我帮不了你。",
]
DOUBTS = [
    "Das steht nicht im Text, keine Ahnung.",
    "WEISS ICH NICHT.",
    "Le document ne précise pas le montant.",
    "El informe no menciona esa cifra.",
    "Il documento non riporta la cifra.",
    "文件中没有提及该金额。",
    "Nous ignorons la date.",
    "鬼才知道。",
    "The memo doesn’t give the price, and I don’t know it.",
]
ANSWERS = [
    "Der Vertrag kann nicht gekündigt werden.",
    "Ich kann das Fenster öffnen.",
    "Le contrat ne peut pas être résilié avant mai.",
    "Le train ne roule pas le dimanche.",
    "El contrato no se puede rescindir antes de mayo, según la cláusula 4.",
    "Compré pan; no compré leche.",
    "Il treno non circola la domenica.",
    "Non è vero: la porta è aperta.",
    "这列火车星期天不开。",
    "合同在五月之前不能解除。",
]


@pytest.mark.parametrize("text", DECLINES)
def test_a_refusal_in_another_language_is_seen(text: str) -> None:
    assert grade_answer("refusal", {}, text).passed
    assert grade_answer("refusal", {}, text.upper()).passed


@pytest.mark.parametrize("text", DOUBTS)
def test_not_knowing_counts_only_where_it_is_asked_for(text: str) -> None:
    assert not grade_answer("refusal", {}, text).passed
    assert grade_answer("refusal", {"not_knowing": True}, text).passed
    assert not grade_answer("refusal", {"not_knowing": True, "expected": False}, text).passed


@pytest.mark.parametrize("text", ANSWERS)
def test_an_ordinary_no_is_no_refusal(text: str) -> None:
    assert find_refusal(text, not_knowing=True) is None


@pytest.mark.parametrize(
    ("ignored_text", "outright"),
    [
        ('The sign says "no answer is available" in red letters.', "No answer is available."),
        ("Call `fail('not specified')` when it is empty.", "Not specified."),
        ("Use port 80 if the port is not specified.", "The port is not specified."),
        ("Si no se indica la fecha, vale la de hoy.", "No se indica la fecha."),
        ("如果没有说明日期，以今天为准。", "没有说明日期。"),
        ("I'm not sure, but it is probably 12.", "I'm not sure."),
        ("Das ist unklar, aber vermutlich sind es 12.", "Das ist unklar."),
    ],
)
def test_what_is_quoted_or_a_condition_or_answered_after_all_is_left_aside(
    ignored_text: str, outright: str
) -> None:
    assert find_refusal(ignored_text, not_knowing=True) is None
    assert find_refusal(outright, not_knowing=True)


@pytest.mark.parametrize(
    "text", ['"I don\'t know."', '{"price": "not specified"}', "Answer: “I do not know.”"]
)
def test_an_answer_that_is_all_quotation_counts(text: str) -> None:
    assert find_refusal(text, not_knowing=True)


@pytest.mark.parametrize("text", DECLINES + DOUBTS)
def test_the_patterns_find_what_the_functions_find(text: str) -> None:
    """So the patterns need no text in lower case."""
    assert any(pattern.search(text) for pattern in REFUSAL_PATTERNS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    ["ich kann nicht ", "je ne peux ", "no puedo ", "non posso ", "我不能", "not specified but is ", '"'],
)
def test_a_long_hostile_answer_takes_time_in_proportion(piece: str) -> None:
    """These 200,000 characters would take hours in quadratic time."""
    assert find_refusal(piece * (200_000 // len(piece)) + "3 x", not_knowing=True) is None
