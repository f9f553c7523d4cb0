"""Makes support tickets, of which each belongs to one team: the same ones every time.

Usage: python -m tools.picture_tickets COUNT FILE. `examples/tickets/tickets.csv` has the first 60.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

FIELDS = ("id", "ticket", "language", "expected", "scorer", "tags")
_GERMAN_SHARE = 0.15
_ITEMS = {
    "lamp": "Lampe",
    "kettle": "Wasserkocher",
    "chair": "Stuhl",
    "mug": "Tasse",
    "clock": "Uhr",
    "basket": "Korb",
    "towel": "Handtuch",
    "pan": "Pfanne",
    "plate": "Teller",
    "candle": "Kerze",
}
_ENGLISH = (
    ("billing", "The invoice for the {item} shows the amount twice."),
    ("billing", "You charged my card {price} euros for the {item}, but the order was cancelled."),
    ("billing", "I paid {price} euros for a {item} on Monday and the shop says that nothing came."),
    ("billing", "Where is the refund of {price} euros for the {item}? It is not on my card yet."),
    ("shipping", "The tracking of my {item} has not changed for {days} days."),
    ("shipping", "The parcel with the {item} should arrive today. Can it still go to my neighbour?"),
    ("shipping", "My {item} was delivered to a house number that does not exist."),
    ("returns", "The {item} is broken. I want to send it back."),
    ("returns", "I ordered the {item} in the wrong size. Can I exchange it after {days} days?"),
    ("returns", "I would like to send the {item} back, it does not match my kitchen."),
    ("account", "I cannot log in since I bought the {item}. The password is right."),
    ("account", "Please delete everything you know about me. I only ever bought a {item}."),
    ("account", "I moved {days} days ago. How do I change the address of my account?"),
    # Of two wishes the first one counts.
    ("billing", "The invoice for the {item} is wrong, and I cannot log in to see the others."),
    ("shipping", "The parcel with the {item} is late. If it is not here in {days} days I send it back."),
)
_GERMAN = (
    ("billing", "Auf der Rechnung für {item} stehen {price} Euro zu viel. Bitte prüfen."),
    ("shipping", "Das Paket mit {item} ist seit {days} Tagen überfällig."),
    ("returns", "Ich möchte {item} umtauschen, es gefällt mir nicht. Das wäre schön."),
    ("account", "Ich habe mein Passwort vergessen und möchte {item} bewerten."),
)
_ENDINGS = {"English": (" Thanks.", " Thank you!", " Best, Ada"), "German": (" Danke.", " Viele Grüße")}


def make_tickets(count: int) -> Iterator[dict[str, str]]:
    """Yields that many tickets, each another text."""
    chance, texts = Random(11), set[str]()
    while len(texts) < count:
        language = "German" if chance.random() < _GERMAN_SHARE else "English"
        team, template = chance.choice(_GERMAN if language == "German" else _ENGLISH)
        item = chance.choice(list(_ITEMS))
        text = template.format(
            item=_ITEMS[item] if language == "German" else item,
            price=chance.randint(5, 240),
            days=chance.randint(2, 20),
        )
        while text in texts:
            text += chance.choice(_ENDINGS[language])
        texts.add(text)
        cells = (f"ticket-{len(texts):04}", text, language, team, "contains", language.lower())
        yield dict(zip(FIELDS, cells, strict=True))


def write_tickets(count: int, path: Path) -> None:
    """Writes that many tickets as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(make_tickets(count))


if __name__ == "__main__":
    write_tickets(int(sys.argv[1]), Path(sys.argv[2]))
