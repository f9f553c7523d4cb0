"""Finds words by which assistants decline or say that they do not know, in six languages. Pure.

The catalogue is a heuristic over wording, in a TOML file for each language, which is read if a text contains
one of the language's parts of words in `telltales.toml`. A pattern is written as the word that it begins with
and what comes after, so that a search can skip to that word. In both, a space stands for up to four
white-space characters, ` … ` for up to five words between (in Chinese `…` for up to twelve characters) and
`{NAME}` for a fragment of the file. Every loop is bounded, as answers may be long and hostile.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Literal, NamedTuple, get_args

from proctor.graders.lexicons.files import fill, load_pattern, load_toml

Phrases = tuple[tuple[str, str], ...]
"""Patterns: the word that each begins with ("" for none), and the rest."""


class Lexicon(NamedTuple):
    """The patterns of one language, as in its TOML file."""

    declines: Phrases
    """Patterns of words that decline."""
    not_knowing: Phrases
    """Patterns of words that say that the answer is not known, or was not provided."""
    answer_pattern: str
    """Matches what follows words of not knowing if an answer is given after all."""


LANGUAGES = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "it": "italian",
    "zh": "chinese",
}
"""The languages of the catalogue, with the names of their files; Chinese is in simplified characters."""


@cache
def load_lexicon(language: str) -> Lexicon:
    """Returns the lexicon of a language, with the fragments in its patterns filled in."""
    file = LANGUAGES[language]
    table = load_toml(file)
    declines, not_knowing = (
        tuple((fill(start, file), fill(end, file)) for start, end in table[kind])
        for kind in ("declines", "not_knowing")
    )
    return Lexicon(declines, not_knowing, fill(table["answered"], file))


@cache
def load_telltales(language: str) -> tuple[str, ...]:
    """Returns parts of words; a text without any of them matches no pattern of the language."""
    return tuple(load_toml("telltales")[LANGUAGES[language]])


_APOSTROPHES = "’‘ʼ`´＇"
Kind = Literal["declines", "not knowing"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def find_refusal(text: str, *, not_knowing: bool = False, answered: Collection[str] = ()) -> str | None:
    """Returns the first words of a text that refuse, in lower case, or None.

    Ignores quotations, code and conditions ("if it is not specified").

    Args:
        text: an answer.
        not_knowing: whether it is enough that the text says that it does not know, or was not told, unless
            it answers after all ("not sure, but probably 12").
        answered: languages in which words of not knowing count even if an answer follows.
    """
    kinds = KINDS if not_knowing else KINDS[:1]
    return _find_words(text, kinds, answered)


def find_doubt(text: str) -> str | None:
    """Returns the first words that say that the answer is unknown, even if an answer follows, or None.

    Ignores quotations, code and conditions, and words that decline.
    """
    return _find_words(text, KINDS[1:], LANGUAGES)


def extract_own_words(text: str) -> str:
    """Returns the text without quotations, code and conditions, in lower case."""
    return _without_quotes(_join_lines(text))


def normalize_apostrophes(text: str) -> str:
    """Returns the text with one kind of apostrophe, and accented letters as single characters.

    `str.translate` would take longer than all searches together.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    for apostrophe in _APOSTROPHES:
        text = text.replace(apostrophe, "'")
    return text


def _join_lines(text: str) -> str:
    lines = "\n".join(" ".join(line.split()) for line in text.split("\n"))
    return _WRAPPED.sub(" ", lines).lower()


def _find_words(text: str, kinds: tuple[Kind, ...], answered: Collection[str]) -> str | None:
    """Returns the first words of some kinds in a text, outside of quotations and conditions."""
    plain = text.lower()
    if _any_telltale().search(plain if text.isascii() else normalize_apostrophes(plain)) is None:
        return None
    lower_text = _join_lines(text)
    words = _first_match(lower_text, kinds, answered)
    if words is not None and (own_words := _without_quotes(lower_text)) != lower_text:
        words = _first_match(own_words, kinds, answered)
    return words


def _first_match(text: str, kinds: tuple[Kind, ...], answered: Collection[str]) -> str | None:
    """Returns the first words of some kinds in a text in lower case; "first" is by the order of the patterns.

    Words of not knowing count only if the text does not answer after all; in the languages of
    `answer_pattern` always.
    """
    text = normalize_apostrophes(text)
    for entry in find_candidates(text, kinds):
        pattern, name = entry.pattern, entry.language
        match = pattern.search(text)
        while (
            match
            and entry.kind == "not knowing"
            and name not in answered
            and _answers_anyway(text, match, name)
        ):
            match = pattern.search(text, max(match.end(), match.start() + 1))
        if match:
            return " ".join(match[0].split())
    return None


def find_candidates(text: str, kinds: tuple[Kind, ...] = KINDS) -> Iterator[CataloguePattern]:
    """Yields the patterns that may match a text, in order; all others lack a word that they begin with.

    Args:
        text: a text in lower case, with straight apostrophes.
        kinds: the kinds of patterns.
    """
    languages = [name for name in LANGUAGES if _telltale_regex(name).search(text)]
    if not languages:
        return
    words = _word_beginnings(text)
    for kind, name in product(kinds, languages):
        patterns, anywhere, beginning = load_catalogue(kind, name)
        places = anywhere.union(*map(beginning.__getitem__, beginning.keys() & words))
        yield from map(patterns.__getitem__, sorted(places))


def _answers_anyway(text: str, doubt: re.Match[str], name: str) -> bool:
    """Returns whether a text answers after its words of doubt, or before them in the same sentence."""
    if _answer_regex(name).match(text, doubt.end()):
        return True
    if not load_pattern("all_languages", "unsure").search(doubt[0]):
        return False
    before = text[max(0, doubt.start() - 160) : doubt.start()]
    return load_pattern("all_languages", "guess").search(before) is not None


def pattern_sources() -> Iterator[str]:
    """Yields every pattern of the catalogue as a regular expression for texts in their original spelling."""
    for kind in ("declines", "not_knowing"):
        for name in LANGUAGES:
            for start, ending in getattr(load_lexicon(name), kind):
                # `\W` matches any apostrophe, and compiles faster than a set of them.
                yield _to_regex(start, ending, name).replace("'", r"\W")


@dataclass(frozen=True, eq=False)
class CataloguePattern:
    """A pattern, for texts in lower case."""

    kind: Kind
    language: str
    start: str
    ending: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; compiled on first use, as all of them together take long."""
        return re.compile(_to_regex(self.start, self.ending, self.language))


class _Catalogue(NamedTuple):
    patterns: tuple[CataloguePattern, ...]
    """In order of precedence."""
    anywhere: frozenset[int]
    """The indexes of patterns that may match any text."""
    beginning: dict[str, frozenset[int]]
    """The indexes of patterns that need a word with this beginning."""


@cache
def load_catalogue(kind: Kind, name: str) -> _Catalogue:
    """Returns the patterns of a kind and a language."""
    lexicon = load_lexicon(name)
    phrases = lexicon.declines if kind == "declines" else lexicon.not_knowing
    needs = [_required_beginnings(start, ending) for start, ending in phrases]
    return _Catalogue(
        tuple(CataloguePattern(kind, name, *phrase) for phrase in phrases),
        frozenset(place for place, words in enumerate(needs) if not words),
        {
            word: frozenset(place for place, words in enumerate(needs) if word in words)
            for word in frozenset().union(*needs)
        },
    )


@cache
def _telltale_regex(*names: str) -> re.Pattern[str]:
    """Returns a pattern for telltales of languages, in lower case, with straight apostrophes or backticks."""
    parts = [part for name in names for part in load_telltales(name)]
    edged = build_trie([part[1:] for part in parts if part.startswith(" ")])
    return re.compile(rf"(?<!\w){edged}|{build_trie([part for part in parts if not part.startswith(' ')])}")


@cache
def _any_telltale() -> re.Pattern[str]:
    return _telltale_regex(*LANGUAGES)


def build_trie(parts: list[str]) -> str:
    """Returns a pattern that matches any of the texts; a space matches a separator of words, or an edge."""
    rests: dict[str, list[str]] = {}
    for part in parts:
        rests.setdefault(part[:1], []).append(part[1:])
    if "" in rests or not parts:
        return "" if parts else "(?!)"
    branches = []
    for letter, endings in rests.items():
        gap = r"\b" if "" in endings else r"\W+"
        branches.append({" ": gap, "'": "['`]"}.get(letter, re.escape(letter)) + build_trie(endings))
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


@cache
def _answer_regex(name: str) -> re.Pattern[str]:
    return re.compile(_to_regex("", load_lexicon(name).answer_pattern, name))


def _to_regex(start: str, ending: str, name: str) -> str:
    """Returns a pattern written as above as a regular expression."""
    if name == "zh":
        other = "我" if start.startswith("我") else ""  # the next occurrence begins a match of its own
        return (start + f"(?:{ending})").replace("…", rf"[^。！？!?\n{other}]{{0,12}}?")
    # The word boundary is after the first letters: before them, the search could not skip to the word.
    if words := _alternatives(start):
        inside = start.startswith("*")
        pattern = (
            _group_by_letter(words, inside=inside)
            + start[len("*" * inside + "(?:" + "|".join(words) + ")") :]
        )
    else:
        plain = _PLAIN.match(start)
        word = plain[0] if plain else ""
        pattern = word + (rf"(?<!\w{word})" if word else "") + start[len(word) :]
    pattern += f"(?:{ending})"
    pattern = pattern.replace(" … ", r" (?:[^\s.!?]{1,30} ){0,5}")
    return pattern.replace(" ?", r"\s{0,4}").replace(" ", r"\s{1,4}")


def _alternatives(start: str) -> list[str]:
    """Returns the alternatives of a pattern's first group, if each begins with a letter; else none."""
    start = start.removeprefix("*")
    if not start.startswith("(?:"):
        return []
    words, depth, since = [], 0, 3
    for at, letter in enumerate(start):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 or (depth == 1 and letter == "|"):
            words.append(start[since:at])
            since = at + 1
        if depth == 0:
            break
    plain = all(word[:1].isalnum() and word[1:2] not in {"?", "*", "{"} for word in words)
    return words if plain and start[since : since + 1] not in {"?", "*", "{"} else []


def _group_by_letter(words: list[str], *, inside: bool) -> str:
    """Groups alternatives by first letter: a search skips to the letters, and tries few words at each."""
    letters: dict[str, list[str]] = {}
    for word in words:
        letters.setdefault(word[0], []).append(word[1:])
    edge = "" if inside else r"(?<!\w{})"
    return (
        "(?:"
        + "|".join(f"{a}{edge.format(a)}(?:{'|'.join(endings)})" for a, endings in letters.items())
        + ")"
    )


def _required_beginnings(start: str, ending: str) -> frozenset[str]:
    """Returns beginnings of words, one of which every match contains; empty if none is known."""
    if sentence := _SENTENCE.match(start):
        words = list(_first_words(start[sentence.end() :] + f"(?:{ending})"))
    else:
        words = [plain[0] for word in _alternatives(start) or [start] if (plain := _PLAIN.match(word))]
    beginnings = frozenset(map(_first_letters, words))
    return frozenset() if "" in beginnings or start.startswith("*") else beginnings


def _first_words(pattern: str) -> Iterator[str]:
    """Yields what a pattern may begin with, as far as it is literal."""
    if not pattern.startswith("(?:"):
        plain = _PLAIN.match(pattern)
        yield plain[0] if plain else ""
        return
    depth, since = 0, 3
    for at, letter in enumerate(pattern):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 or (depth == 1 and letter == "|"):
            yield from _first_words(pattern[since:at].lstrip(" "))
            since = at + 1
        if depth == 0:
            break
    if pattern[since : since + 1] in {"?", "*", "{"}:
        yield from _first_words(pattern[since + 1 :].lstrip(" "))


_SENTENCE = re.compile(r"\(\?:(?:\\A|\^)\|\[[^]]+\](?:\\s\{0,2\})?\)(?:(?:\\W|\[\\W\])\{0,\d\})?")
"""The beginning of a text or sentence, with what may precede its first word."""
_PLAIN = re.compile(r"(?:[^\W_](?![?*{]))*")
"""The literal beginning of a pattern."""


def _first_letters(word: str) -> str:
    return word[: 1 if word >= "\u3000" else 3]


def _word_beginnings(text: str) -> set[str]:
    """Returns the first one, two and three letters of each word; in Chinese, each character."""
    words = set(re.findall(r"[^\W_]+", text))
    prefixes = {word[:3] for word in words} | {word[:2] for word in words} | {word[:1] for word in words}
    return prefixes if text.isascii() else prefixes | set(text)


_WRAPPED = re.compile(r"(?<!\n)\n(?=[a-zß-öø-ÿ])")
"""A line break inside a sentence: the next line begins with a small letter."""
_QUOTATION = re.compile(
    r'"[^"\n]{2,300}"|“[^”\n]{2,300}”|„[^“”\n]{2,300}[“”]|«[^»\n]{2,300}»|»[^«\n]{2,300}«|「[^」\n]{2,300}」'
    r"|『[^』\n]{2,300}』|《[^》\n]{2,60}》|(?<!\w)‘[^‘\n]{2,300}?’(?!\w)|‚[^‘\n]{2,300}‘|‹[^›\n]{2,300}›"
    r"|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){2,300}'(?!\w)|```[^`]{0,4000}```|`[^`\n]{1,300}`"
)
_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\d_]+")


def _without_quotes(text: str) -> str:
    """Returns a text without quotations and conditions, or all of it if hardly anything else is left."""
    if '":' not in text and "{" not in text:
        without = _QUOTATION.sub(" … ", text)
        if len(without) < len(text) and len(_WORD.findall(without, 0, 2000)) >= 4:
            text = without
    return load_pattern("all_languages", "condition").sub(" ", text)
