"""The models whose list prices come with Proctor: names for suggestions and shell completion."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from msgspec import json

import proctor
from proctor.targets import iter_kinds
from proctor.targets.kind import TargetKind

_PRICES_FILE = Path(proctor.__file__).with_name("prices.json")


def list_priced_models() -> list[str]:
    """Returns the names of the models, in the order of the file."""
    return list(json.decode(_PRICES_FILE.read_bytes())["models"])


def models_of(kind: TargetKind, names: list[str]) -> list[str]:
    """Returns those of the names that are known to be models of a kind without being told."""
    if not kind.model_pattern:
        return []
    return [name for name in names if "/" not in name and re.match(kind.model_pattern, name)]


def find_near_models(word: str) -> list[str]:
    """Returns at most two names of models, each a target by itself, that are much like a word."""
    names = list_priced_models()
    return get_close_matches(
        word, [name for kind in iter_kinds() for name in models_of(kind, names)], n=2, cutoff=0.75
    )
