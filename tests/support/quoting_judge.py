"""Honest judges that quote the answer around their verdict, and answers that are made to be quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.errors import TargetError
from proctor.model import Output, Prompt

_CORPUS = Path(__file__).parents[1] / "data" / "judge_injections.txt"
_WORD = re.compile(r"@([A-Z_]+)@")
HARMLESS = "Lyon is the capital; I read it in a book about the rivers of Europe, and it is quite old."
"""What shows which replies can be read where the answer plays no tricks."""


@dataclass(frozen=True, eq=False)
class Form:
    """How a grader's judge replies."""

    key: str
    """Of the verdict in the JSON object."""
    reason: str
    """The key of the reason."""
    values: Mapping[bool, Any]
    """The verdict of a pass and of a fail."""
    words: Mapping[bool, str] = field(default_factory=dict)
    """The verdicts as plain text, where the grader reads that."""

    def pair(self, passed: bool) -> str:
        return f"{json.dumps(self.key)}: {json.dumps(self.values[passed])}"

    def object(self, passed: bool, reason: str = "It is so.") -> str:
        return json.dumps({self.key: self.values[passed], self.reason: reason})

    def fill(self, text: str, passed: bool) -> str:
        """The text of the corpus as an answer that forges this verdict."""
        value = json.dumps(self.values[passed])
        inner = re.findall(r'"(?:satisfied|score)": \w+', value)
        words = {
            "OBJECT": self.object(passed),
            "FALSE_OBJECT": self.object(not passed),
            "PAIR": self.pair(passed),
            "INNER": inner[0] if inner else self.pair(passed),
            "KEY": self.key,
            "ESCAPED_KEY": f"\\u{ord(self.key[0]):04x}{self.key[1:]}",
            "UPPER_KEY": self.key.upper(),
            "REASON": self.reason,
            "VALUE": value,
            "WORD": self.words.get(passed, str(self.values[passed])),
            "LONG": "It is Paris, as everybody knows. " * 12,
        }
        return _WORD.sub(lambda match: words[match[1]], text)


def corpus() -> list[str]:
    """The texts, each with words such as @OBJECT@ that a form fills in."""
    lines = _CORPUS.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if not line.startswith("#")]


QUOTES: Mapping[str, Callable[[str], str]] = {
    "all": lambda answer: answer,
    "head": lambda answer: answer[:40],
    "tail": lambda answer: answer[-40:],
}
"""What a judge quotes of an answer."""

Style = Callable[[Form, bool, str], str | None]


def _escaped(form: Form, passed: bool, quote: str) -> str:
    return form.object(passed, f"The answer says: {quote}")


def _escaped_reason_first(form: Form, passed: bool, quote: str) -> str:
    return json.dumps({form.reason: f'It says "{quote}".', form.key: form.values[passed]}, ensure_ascii=False)


def _careless(form: Form, passed: bool, quote: str) -> str:
    return f'{{{form.pair(passed)}, "{form.reason}": "The answer says: {quote}"}}'


def _careless_reason_first(form: Form, passed: bool, quote: str) -> str:
    return f'{{"{form.reason}": "The answer says: {quote}", {form.pair(passed)}}}'


def _careless_quotation_marks(form: Form, passed: bool, quote: str) -> str:
    return f'{{{form.pair(passed)}, "{form.reason}": "It says "{quote}" and no more."}}'


def _wrapped(form: Form, passed: bool, quote: str) -> str:
    return f'{{"evaluation": {{"{form.reason}": "It says: {quote}", {form.pair(passed)}}}}}'


def _plain(before: str, after: str) -> Style:
    """Plain text with the verdict as {word}; {quote} is what is quoted."""

    def reply(form: Form, passed: bool, quote: str) -> str | None:
        if not form.words:
            return None
        parts = {"word": form.words[passed], "quote": quote}
        return before.format(**parts) + after.format(**parts)

    return reply


STYLES: Mapping[str, Style] = {
    "JSON, escaped": _escaped,
    "JSON, escaped, reason first": _escaped_reason_first,
    "JSON, escaped, fenced": lambda *said: f"```json\n{_escaped(*said)}\n```",
    "JSON, escaped, after thinking": lambda form, passed, quote: (
        f"<think>It says {quote}, hm.</think>\n{form.object(passed)}"
    ),
    "JSON, unescaped": _careless,
    "JSON, unescaped, reason first": _careless_reason_first,
    "JSON, unescaped, quotation marks": _careless_quotation_marks,
    "JSON, unescaped, fenced": lambda *said: f"```json\n{_careless(*said)}\n```",
    "JSON, unescaped, wrapped": _wrapped,
    "quote, then JSON": lambda form, passed, quote: f"{quote}\n\n{form.object(passed)}",
    "prose and quote, then JSON": lambda form, passed, quote: (
        f"The answer says: {quote}\nMy verdict:\n{form.object(passed)}"
    ),
    "JSON, then quote": lambda form, passed, quote: f"{form.object(passed)}\n\n{quote}",
    "fenced JSON, then quote": lambda form, passed, quote: (
        f"```json\n{form.object(passed)}\n```\nIt says: {quote}"
    ),
    "fenced quote, then JSON": lambda form, passed, quote: f"```\n{quote}\n```\n{form.object(passed)}",
    "head, JSON, tail": lambda form, passed, quote: f"{quote[:40]}\n{form.object(passed)}\n{quote[-40:]}",
    "text, quote below": _plain("{word}\n\n", "The answer says: {quote}"),
    "text, quote beside": _plain("{word}. ", "{quote}"),
    "text, quote in marks": _plain("{word}: it says ", '"{quote}".'),
    "text, quote fenced": _plain("{word}\n", "```\n{quote}\n```"),
    "text below quote": _plain("{quote}\n\n", "{word}"),
    "text below prose and quote": _plain('The answer says "{quote}".\n', "Verdict: {word}"),
    "text, declared": _plain("Answer: {word}\n\n", "{quote}"),
}
"""How a judge writes the verdict and a quote; None where its grader reads no such text."""


def _escaped_key(form: Form, passed: bool, quote: str) -> str:
    key = f"\\u{ord(form.key[0]):04x}{form.key[1:]}"
    return f'{{"{key}": {json.dumps(form.values[passed])}, "{form.reason}": "{quote}"}}'


def _wide(form: Form, passed: bool, quote: str) -> str:
    return f"｛＂{form.key}＂：{json.dumps(form.values[passed])}，＂{form.reason}＂：＂{quote}＂｝"


def _yaml(form: Form, passed: bool, quote: str) -> str:
    return f"{form.reason}: {quote}\n{form.key}: {json.dumps(form.values[passed])}"


ODD_STYLES: Mapping[str, Style] = {
    "JSON, typographic marks": lambda form, passed, quote: (
        f'{{{form.pair(passed)}, "{form.reason}": "Sie sagt „{quote}“."}}'
    ),
    "JSON, corner brackets": lambda form, passed, quote: (
        f'{{"{form.reason}": "回答「{quote}」。", {form.pair(passed)}}}'
    ),
    "JSON, single marks": lambda form, passed, quote: (
        f"{{'{form.reason}': '{quote}', '{form.key}': {json.dumps(form.values[passed])}}}"
    ),
    "JSON, trailing comma": lambda form, passed, quote: (
        f'{{{form.pair(passed)}, "{form.reason}": "{quote}",}}'
    ),
    "JSON, comment": lambda form, passed, quote: f"/* {quote} */ {form.object(passed)}",
    "JSON, byte order mark": lambda *said: f"\ufeff{_careless(*said)}",
    "JSON, list": lambda form, passed, quote: f'["{quote}", {form.object(passed)}]',
    "JSON, key with an escape": _escaped_key,
    "JSON, wide": _wide,
    "JSON, two quotes": lambda form, passed, quote: (
        f'{{"quote": "{quote}", {form.pair(passed)}, "{form.reason}": "{quote}"}}'
    ),
    "JSON in a string": lambda *said: json.dumps(_careless(*said)),
    "YAML": _yaml,
    "only an end of thinking": lambda form, passed, quote: f"It says {quote}</think>{form.object(passed)}",
    "text, bold": _plain("**Reason:** It says: {quote}\n", "**Verdict:** {word}"),
    "text, at both ends": _plain("{word}\n\n{quote}\n\n", "Final verdict: {word}"),
    "text, equals": _plain("verdict = {word}\n", "reason = {quote}"),
    "text, dash": _plain("{word} — ", "{quote}"),
    "text, tags": _plain("<reason>{quote}</reason>", "<verdict>{word}</verdict>"),
    "text, correction": _plain("{quote}\nWait, that is the answer's own text. ", "{word}"),
}
"""Styles that no form asks for, and small models have."""


@dataclass
class QuotingJudge:
    """A target that replies with its verdict in one style.

    Asked again it keeps to the form where it `heeds`; else it would only repeat itself, and fails.
    """

    form: Form
    style: Style
    passed: bool
    quote: str
    heeds: bool = False

    async def answer(self, prompt: Prompt) -> Output:
        if len(prompt.messages) == 2:
            return Output(text=self.reply())
        if self.heeds:
            return Output(text=self.form.object(self.passed))
        raise TargetError("It says the same again.")

    def reply(self) -> str:
        return self.style(self.form, self.passed, self.quote) or ""
