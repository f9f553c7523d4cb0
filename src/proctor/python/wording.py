"""Turns messages for the command line into messages for calls: flags become the options of a call."""

from __future__ import annotations

import re

_FLAG = re.compile(r"`proctor [^`]*`|: proctor [^\n]*|--([a-z][a-z-]*[a-z])(=?)")
"""A command, which stays as it is, or a flag."""
_OTHER_NAMES = {"repeat": "repeats", "prompt": "prompts"}
"""Flags that are options under another name."""


def to_option_names(text: str) -> str:
    """Returns a message in which each flag, such as `--min-pass-rate`, is the option `min_pass_rate`."""
    return _FLAG.sub(_to_option, text)


def _to_option(match: re.Match[str]) -> str:
    flag, equals = match.groups()
    if flag is None:
        return match[0]
    name = _OTHER_NAMES.get(flag, flag.replace("-", "_"))
    return f"{name}=" if equals else f"`{name}`"
