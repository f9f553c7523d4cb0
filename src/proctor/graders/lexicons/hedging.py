"""Finds the phrases of doubt and of missing facts of `hedges.toml`, in six languages. Pure.

A phrase also matches its other spellings: contractions ("don't", "do not"), tenses ("doesn't", "did not"),
words for being unable ("can't", "unable to") and an adverb between ("don't really know"). With the default
phrases, the words of not knowing of `matcher.py` count too.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import chain

from proctor.graders.lexicons.files import load_pattern, load_toml
from proctor.graders.lexicons.matcher import build_trie, extract_own_words, find_doubt, normalize_apostrophes

HEDGE_PHRASES: tuple[str, ...] = tuple(load_toml("hedges")["phrases"]["default"])
"""English phrases by which an answer admits that it does not know, is not sure or was not told."""
_SPELLINGS: tuple[tuple[str, str], ...] = tuple(map(tuple, load_toml("hedges")["spellings"]))


@cache
def all_hedge_phrases() -> tuple[str, ...]:
    """Returns the phrases of all six languages, `HEDGE_PHRASES` first."""
    return tuple(chain.from_iterable(load_toml("hedges")["phrases"].values()))


def find_hedge(text: str, phrases: tuple[str, ...] = HEDGE_PHRASES) -> str | None:
    """Returns the first of the phrases that the text contains as whole words, or None.

    Ignores case, kinds of apostrophe, white space and the spellings in `hedges.toml`. "First" is by the order
    of the phrases.

    Args:
        text: an answer.
        phrases: phrases to look for anywhere in the text. If they include all of `HEDGE_PHRASES`, they extend
            the whole catalogue: all phrases of `hedges.toml`, and words of not knowing (these are returned as
            the text has them), outside of quotations, code and conditions.
    """
    more = _extra_phrases(phrases)
    if more is None:
        return _find_phrase(text, phrases)
    catalogued = _find_phrase(
        load_pattern("hedges", "others").sub(" … ", extract_own_words(text)), all_hedge_phrases()
    )
    return catalogued or _find_phrase(text, more) or find_doubt(text)


@lru_cache(maxsize=64)
def _extra_phrases(phrases: tuple[str, ...]) -> tuple[str, ...] | None:
    """Returns the phrases that are not in the catalogue; None if the phrases replace it."""
    if not set(HEDGE_PHRASES).issubset(phrases):
        return None
    return tuple(phrase for phrase in phrases if phrase not in all_hedge_phrases())


def _find_phrase(text: str, phrases: tuple[str, ...]) -> str | None:
    """Returns the first phrase that a text contains."""
    if not phrases:
        return None
    plain = _normalize(text)
    any_form, forms = _phrase_forms(phrases)
    if any_form.search(plain) is None:
        return None
    for phrase, form in forms:
        if form in plain:
            from proctor.graders.text import find_word  # imports much, and most answers admit no doubt

            if find_word(form, plain, whole=True) >= 0:
                return phrase
    return None


def _normalize(text: str) -> str:
    """Returns the text in lower case, with one spelling for each phrase."""
    plain = " ".join(normalize_apostrophes(text.lower()).split())
    if "able to" in plain:  # both "cannot find" and "unable to" stand in "unable to find"
        plain = load_pattern("hedges", "unable").sub(" unable to cannot", plain)
    for variant, spelling in _SPELLINGS:
        plain = plain.replace(variant, spelling)
    return load_pattern("hedges", "filler").sub("", plain)


@lru_cache(maxsize=64)
def _phrase_forms(phrases: tuple[str, ...]) -> tuple[re.Pattern[str], tuple[tuple[str, str], ...]]:
    """Returns a pattern that matches every text with a phrase, and each phrase with its normalized spelling.

    Blank phrases are left out, as they would match everywhere.
    """
    forms = [
        (phrase, _normalize(phrase).replace("unable to cannot ", "cannot ").strip()) for phrase in phrases
    ]
    forms = [(phrase, form) for phrase, form in forms if form]
    return re.compile(build_trie([form for _, form in forms])), tuple(forms)
