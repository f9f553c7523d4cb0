"""Finds the phrases of doubt and missing facts of `hedges.toml`, in six languages, in a text. Pure.

A phrase stands for its other spellings too: contractions ("don't", "do not"), tenses ("doesn't", "did not"),
ways of being unable ("can't", "unable to") and an adverb between ("don't really know"). Where nobody chose
the phrases, the words of not knowing of `matcher` count as well.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import chain

from proctor.graders.lexicons.files import load_pattern, load_toml
from proctor.graders.lexicons.matcher import doubting_words, outright, straight, trie

HEDGE_PHRASES: tuple[str, ...] = tuple(load_toml("hedges")["phrases"]["default"])
"""English phrases by which an answer admits that it does not know, is not sure or was not told."""
_SPELLINGS: tuple[tuple[str, str], ...] = tuple(map(tuple, load_toml("hedges")["spellings"]))


@cache
def all_hedge_phrases() -> tuple[str, ...]:
    """Returns the phrases of all six languages, `HEDGE_PHRASES` first."""
    return tuple(chain.from_iterable(load_toml("hedges")["phrases"].values()))


def hedging_words(text: str, phrases: tuple[str, ...] = HEDGE_PHRASES) -> str | None:
    """The first of the phrases that stands in the text as whole words, as the phrase is written, or None.

    Case, apostrophes, white space and the spellings that the file names make no difference. "First" goes by
    the order of the phrases.

    Args:
        text: an answer.
        phrases: what is looked for anywhere in the text. With all of `HEDGE_PHRASES` among them, they add to
            the whole catalogue: all phrases of `hedges.toml`, and words of not knowing (then the words of the
            text are given), outside of quotations, code and conditions.
    """
    more = _beyond_the_catalogue(phrases)
    if more is None:
        return _phrase_in(text, phrases)
    catalogued = _phrase_in(load_pattern("hedges", "others").sub(" … ", outright(text)), all_hedge_phrases())
    return catalogued or _phrase_in(text, more) or doubting_words(text)


@lru_cache(maxsize=64)
def _beyond_the_catalogue(phrases: tuple[str, ...]) -> tuple[str, ...] | None:
    """What phrases add to the catalogue; None where they stand in its place."""
    if not set(HEDGE_PHRASES).issubset(phrases):
        return None
    return tuple(phrase for phrase in phrases if phrase not in all_hedge_phrases())


def _phrase_in(text: str, phrases: tuple[str, ...]) -> str | None:
    """The first phrase that stands in a text."""
    if not phrases:
        return None
    plain = _plain(text)
    any_form, forms = _forms(phrases)
    if any_form.search(plain) is None:
        return None
    for phrase, form in forms:
        if form in plain:
            from proctor.graders.text import place  # imports much, and most answers admit no doubt

            if place(form, plain, whole=True) >= 0:
                return phrase
    return None


def _plain(text: str) -> str:
    """The text in lower case, with one spelling for what has several."""
    plain = " ".join(straight(text.lower()).split())
    if "able to" in plain:  # both "cannot find" and "unable to" stand in "unable to find"
        plain = load_pattern("hedges", "unable").sub(" unable to cannot", plain)
    for variant, spelling in _SPELLINGS:
        plain = plain.replace(variant, spelling)
    return load_pattern("hedges", "filler").sub("", plain)


@lru_cache(maxsize=64)
def _forms(phrases: tuple[str, ...]) -> tuple[re.Pattern[str], tuple[tuple[str, str], ...]]:
    """A pattern that every text with a phrase has, and each phrase with the spelling that is looked for.

    A blank phrase is left out; it would be found everywhere.
    """
    forms = [(phrase, _plain(phrase).replace("unable to cannot ", "cannot ").strip()) for phrase in phrases]
    forms = [(phrase, form) for phrase, form in forms if form]
    return re.compile(trie([form for _, form in forms])), tuple(forms)
