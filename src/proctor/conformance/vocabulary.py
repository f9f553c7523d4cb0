"""Words and texts for the questions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

THINGS = (
    "the sea",
    "a bridge",
    "an old tree",
    "the rain",
    "a harbour",
    "a lantern",
    "a mountain",
    "a garden",
)
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "orange", "purple", "brown", "silver", "pink")
FRUIT = ("apples", "pears", "plums", "cherries", "lemons", "melons", "figs", "grapes", "peaches")
CREATURES = ("dog", "cat", "horse", "parrot", "rabbit", "goat", "tortoise")
SCRIPTS = {
    "arabic": ("قمر", "نهر", "شمس"),
    "chinese": ("河流", "山谷", "月光"),
    "cyrillic": ("снег", "река", "город"),
    "czech": ("žluť", "kůň", "řeřicha"),
    "emoji": ("🦉", "🌵", "🚲"),
    "greek": ("θάλασσα", "ουρανός", "νησί"),
    "hindi": ("नदी", "पहाड़", "बारिश"),
    "japanese": ("さくら", "やま", "ひかり"),
}
"""Words by script, none of which is a part of another."""
_ENDS = ("ora", "imel", "uset", "andri", "evin", "olka")
_BEGINS = ("Tal", "Mer", "Bren", "Sor", "Quil", "Var", "Fen", "Dros", "Hal", "Ips")
_MIDDLES = ("v", "d", "st", "lm", "nt", "b")
_OPENINGS = (
    "The clerk at the counter",
    "A traveller from the coast",
    "The gardener of the old house",
    "Somebody in the second row",
    "The youngest of the sisters",
    "A driver who knew the way",
    "The teacher of the village",
    "The keeper of the museum",
)
_DEEDS = (
    "looked out of the window and waited for the rain to end",
    "put the letters back into the drawer without a word",
    "asked whether the evening train had already left",
    "walked along the river until the lamps were lit",
    "folded the map and laid it on the kitchen table",
    "told a long story about a ship that never came home",
    "bought bread, cheese and a bag of walnuts at the market",
    "listened to the clock and thought of the summer",
)
_FILLER_LENGTH = 9000
"""The length of a long text in letters: some 2,200 tokens, which fit the embedded model."""


def random_name(rng: Random) -> str:
    """Returns an invented name."""
    return rng.choice(_BEGINS) + rng.choice(_MIDDLES) + rng.choice(_ENDS)


def random_names(rng: Random, count: int) -> list[str]:
    """Returns different invented names, none of which is a part of another."""
    pairs = zip(rng.sample(_BEGINS, count), rng.sample(_ENDS, count), strict=True)
    return [begin + rng.choice(_MIDDLES) + end for begin, end in pairs]


def make_filler(rng: Random, facts: Sequence[str]) -> str:
    """Returns a long text without digits that contains the facts in order and evenly spaced."""
    parts: list[str] = []
    for fact in facts:
        length = 0
        while length < _FILLER_LENGTH / len(facts):
            sentence = f"{rng.choice(_OPENINGS)} {rng.choice(_DEEDS)}."
            parts.append(sentence)
            length += len(sentence)
        parts.append(fact)
    return " ".join(parts)
