"""Grades an answer by a question that a judge answers with YES or NO."""

from __future__ import annotations

import re
from typing import ClassVar

from proctor.graders.json_structure import NotJson
from proctor.graders.judged.judge_call import JudgeRequest, call_judges, object_schema
from proctor.graders.judged.reply_parser import get_text, parse_json_value
from proctor.graders.judged.voting import JudgeReading
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{"verdict": "YES", "reason": "one sentence that names what decided it"}
The verdict is YES if the question is to be answered with yes for this answer. It is NO if it is
not, or only in part."""

_MARKS = " \t\r\n*_`"

_SCHEMA = object_schema(verdict={"type": "string", "enum": ["YES", "NO"]}, reason={"type": "string"})


class LlmJudge(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a judge answers YES to a question about the answer.

    The judge sees the case's messages, its expected answer and the answer. Every reply is kept.
    """

    needs: ClassVar[str | None] = "judge"
    shows_metadata: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = True

    prompt: str
    """The question, such as "Does the answer name both causes?"."""

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("`prompt` is empty; write a question that can be answered with YES or NO.")

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 for YES, 0 for NO.

        Raises:
            CannotScore: there is no judge, or no majority of judges with readable replies.
        """
        request = JudgeRequest(
            heading="The question about the assistant's answer that you are to decide:",
            question=self.prompt,
            form=_FORM,
            schema=_SCHEMA,
            read=read_verdict,
        )
        return await call_judges(grading_input, request)


def read_verdict(reply: str) -> JudgeReading | None:
    """Reads the verdict in a reply; returns None if there is none or more than one.

    Reads a JSON object, fenced or not, whose `verdict` is YES or NO in any case, or a text that has one of
    these words and not the other: as its first word ("Yes, it does."), after words that declare it
    ("Answer: YES", "I would say no"), or as its last word, unless the sentence denies it, sets a condition or
    tells what the answer says. It may be framed as `[[YES]]` or boxed as in LaTeX. "Yesterday", "Yes and no",
    "Yes, partly" and "not YES" are no verdicts. The "no" of "no mention" is none either: "Yes, there is no
    doubt" is YES.

    Raises:
        UnreadableReply: it is JSON with two verdicts.
    """
    try:
        reply_value = parse_json_value(reply, "verdict")
    except NotJson:
        reply = _FRAMED_VERDICT.sub(lambda frame: frame[1] or frame[2], reply)
        return None if "{" in reply else _read_plain(reply)  # a second verdict may stand there
    if isinstance(reply_value, dict):
        verdict = reply_value.get("verdict")
        return _make_reading(
            verdict.strip().upper() if isinstance(verdict, str) else None, get_text(reply_value, "reason")
        )
    return _read_plain(reply_value) if isinstance(reply_value, str) else None


_CONTINUATION = r"(?:it|the|this|that|there|he|she|they|because|since|as|indeed|wait|sorry|actually)\b"
"""Words that may directly follow a verdict; before any other word a "no" belongs to that word."""
_VERDICT = re.compile(
    rf"(?<![\w'’/-])(?:yes|(?-i:NO)|no(?![ \t]+(?!{_CONTINUATION})[a-z]|\.?[ \t]?\d))(?![\w/]|[-'’]\w)",
    re.IGNORECASE,
)
_OPENING = r"[\s*_`\"'“‘]{0,8}"
_NUMERO = re.compile(rf"{_OPENING}no\W{{0,4}}\d", re.IGNORECASE)
"""A "No. 5" that may also be a NO with its reason."""
_CLOSING = re.compile(
    r"[*_`\"'”’]{0,6}(?:\s*\Z|[ \t]*\n|\s*(?:\.(?!\.)|[,:;!)\]–—-])[*_`\"'”’]{0,6}"
    rf"|[ \t]+(?={_CONTINUATION}))",
    re.IGNORECASE,
)
"""What may follow a verdict."""
_HEDGE = re.compile(
    r"[\s*_]{0,8}(?:but|although|though|however|partly|partially|in part|sort of|kind of|almost|mostly|maybe"
    r"|perhaps|or|and|if|unless|not)\b",
    re.IGNORECASE,
)
"""Words that qualify a YES, which then does not count; a NO stays a NO."""
_DECLARATION = re.compile(
    r"(?:\A|[.!?\n])[\s*_`#>-]{0,8}(?:(?:so|therefore|thus|hence),? )?(?:(?:(?:my|the|final|overall) ){0,3}"
    r"(?:answer|verdict|judge?ment|decision|conclusion|result)(?: is)?|i(?:'d| would)? (?:say|think|believe))"
    rf"[ *_]{{0,4}}[:=–—-]?{_OPENING}\Z",
    re.IGNORECASE,
)
"""Words that declare a verdict, from the beginning of their sentence."""
_FRAMED_VERDICT = re.compile(
    r"\[\[ ?(yes|no) ?\]\]|\$?\\boxed\{(?:\\text(?:bf)?\{)? ?(yes|no) ?\}{1,2}\$?", re.IGNORECASE
)
"""A verdict in the frame that some prompts request."""
_SENTENCES = re.compile(r"[.!?][*_]{0,3}\s|\n")
_QUALIFIER = re.compile(
    r"\b(?:not|no|never|nor|hardly|cannot|without|if|unless|whether|would|could|might|maybe|perhaps|almost|nearly"
    r"|partly|than|assistant|model|word|its|tells?|says?|said|asks?|reads|states?|claims?|ends?|begins?|contains?"
    r"|repl(?:y|ies)|writes?)\b|n['’]t\b|['’]s (?:answer|reply|response)|[\"“]",
    re.IGNORECASE,
)
"""Words that make a verdict at the end of the sentence denied, conditional or the answer's own."""
_END = re.compile(r"[*_`]{0,4}[.!]?[*_`]{0,4}\s*\Z")
_MAX_DECLARATION_LENGTH = 100
"""How many characters before a verdict can declare it."""


def _read_plain(reply: str) -> JudgeReading | None:
    """Reads a text that is not JSON."""
    verdicts = list(_VERDICT.finditer(reply))
    words = {match[0].upper() for match in verdicts}
    if len(words) != 1:
        return None
    (word,) = words
    if word == "YES" and _NUMERO.match(reply):
        return None
    if not re.fullmatch(_OPENING, reply[: verdicts[0].start()]):
        return _read_declaration(reply, word, verdicts)
    return _read_after(reply, word, verdicts[0].end())


def _read_declaration(reply: str, word: str, verdicts: list[re.Match[str]]) -> JudgeReading | None:
    """Reads a text with a verdict that is not its first word."""
    for match in verdicts:
        before = reply[max(0, match.start() - _MAX_DECLARATION_LENGTH) : match.start()]
        if match.start() > _MAX_DECLARATION_LENGTH:
            before = "…" + before  # not the beginning of the text
        if _DECLARATION.search(before):
            return _read_after(reply, word, match.end())
    last = verdicts[-1]
    before = reply[: last.start()]
    if _END.match(reply, last.end()) and not _QUALIFIER.search(_SENTENCES.split(before)[-1]):
        return _make_reading(word, before.strip(_MARKS) or None)
    return None


def _read_after(reply: str, word: str, end: int) -> JudgeReading | None:
    """Reads a verdict by what follows it."""
    closing = _CLOSING.match(reply, end)
    if closing is None or (word == "YES" and _HEDGE.match(reply, closing.end())):
        return None
    return _make_reading(word, reply[closing.end() :].strip(_MARKS) or None)


def _make_reading(verdict: str | None, feedback: str | None) -> JudgeReading | None:
    if verdict not in ("YES", "NO"):
        return None
    passed = verdict == "YES"
    return JudgeReading(value=float(passed), passed=passed, clause=f"said {verdict}", feedback=feedback)
