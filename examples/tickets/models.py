"""Three stand-ins for models, so that the example runs without a key: they answer by rules, always the same.

Each makes the mistakes of its kind: `small` knows few words and no German, `medium` misses the second wish of
a ticket, `large` is right when it may think aloud. Real models are named in the same place: `--target
openai:gpt-5.2`.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from proctor import Prompt

WORDS = {
    "billing": r"invoice|charged|paid|card|Rechnung|abgebucht",
    "shipping": r"parcel|tracking|delivered|arrive|Paket|Lieferung",
    "returns": r"send .* back|exchange|wrong size|broken|zurückschicken|umtauschen",
    "account": r"password|address|log in|delete|Passwort|Konto",
}
USD_PER_TOKEN = {"small": 0.1e-6, "medium": 0.5e-6, "large": 3e-6}
TOKENS_PER_SECOND = {"small": 160, "medium": 90, "large": 55}


def small(prompt: Prompt) -> dict[str, Any]:
    """Knows few words and no German."""
    return _answer(prompt, "small", misses=0.18, knows_german=False)


def medium(prompt: Prompt) -> dict[str, Any]:
    """Knows most."""
    return _answer(prompt, "medium", misses=0.10, knows_german=True)


def large(prompt: Prompt) -> dict[str, Any]:
    """Is right when it may think aloud."""
    return _answer(prompt, "large", misses=0.06, knows_german=True)


def _answer(prompt: Prompt, model: str, *, misses: float, knows_german: bool) -> dict[str, Any]:
    text = prompt.messages[-1].content
    thinks = "in one sentence" in text
    ticket = re.sub(r"(?s)^Ticket in \w+: |\n\nFirst say.*|^.*team only\.\n\n", "", text)
    teams = [team for team, words in WORDS.items() if re.search(words, ticket, re.IGNORECASE)]
    if re.search(r"\b(ich|das|auf)\b", ticket, re.IGNORECASE) and not knows_german:
        teams = []
    # Thinking aloud helps large models, and small ones get lost in it.
    share = misses * ({"small": 1.6, "medium": 0.5, "large": 0.2}[model] if thinks else 1)
    chance = int.from_bytes(sha256(f"{model}{ticket}".encode()).digest()[:4], "big") / 2**32
    wrong = [team for team in WORDS if team not in teams]
    team = (teams if chance >= share and teams else wrong)[0 if thinks else -1]
    reply = f"{ticket.split('.')[0]}: that is what the customer wants.\nTeam: {team}" if thinks else team
    tokens = len(text) // 4, len(reply) // 4 + 1
    return {
        "text": reply,
        "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
        "latency_ms": round(120 + 1000 * tokens[1] / TOKENS_PER_SECOND[model] + 80 * chance, 1),
        "cost_usd": round(sum(tokens) * USD_PER_TOKEN[model], 9),
    }
