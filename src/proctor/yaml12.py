"""YAML 1.2 text to plain data whose objects and lists know their lines.

Scalars are read by the core schema (YAML 1.2.2, section 10.3.2): `yes`, `on` and `2024-01-01` are texts. Keys
are always the text that is written, but for the merge key `<<` of YAML 1.1, which many programs read. What
the wire form cannot hold (`.nan`, `.inf`, two equal keys, a whole number beyond 64 bits) is refused, and so
are tags of other programs: no text can make an object of a class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Final

MAX_NESTING: Final = 64
"""Levels of lists and objects."""
MAX_NODES: Final = 100_000
"""Values that aliases may add to those that a text can hold by its length: no small text takes all memory."""

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_INT = re.compile(r"[-+]?[0-9]+")
_BASED_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY_OR_NAN = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_LINE_ENDS: Final = (0x85, 0x2028, 0x2029)
"""YAML 1.1 broke lines at these characters and 1.2 does not, so the parser must not see them: it gets others
instead, for private use, that the text has nowhere."""
_PRIVATE_USE: Final = range(0xF0000, 0x110000)
_ESCAPED: Final = re.compile(r"\\U([0-9A-Fa-f]{8})")
_FIRST_OF_SPECIAL = frozenset("~nNtTfF+-.0123456789")
_PLAIN = "plain"
_CORE = "tag:yaml.org,2002:"
_STR, _SEQ, _MAP = _CORE + "str", _CORE + "seq", _CORE + "map"
_TAG_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}


class YamlError(ValueError):
    """Text that is not YAML, or says what plain data cannot hold; `line` is where, and is quoted."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class YamlMap(dict[str, Any]):
    """An object that knows the line on which it begins and the line of each field."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class YamlList(list[Any]):
    """A list that knows the line on which it begins and the line of each item."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def empty_like(row: dict[str, Any]) -> dict[str, Any]:
    """Returns an empty object with the same lines."""
    if not isinstance(row, YamlMap):
        return {}
    copy = YamlMap(row.line)
    copy.lines = row.lines
    return copy


def map_strings(
    value: Any, change: Callable[[str, str], Any], keep: Collection[str] = (), name: str = ""
) -> Any:
    """Applies a function to every text in a value, except field names and the fields in `keep`; keeps lines.

    `change` gets a text and the name of its field.
    """
    if isinstance(value, str):
        return change(value, name)
    if isinstance(value, dict):
        copy = empty_like(value)
        for inner, item in value.items():
            copy[inner] = item if inner in keep else map_strings(item, change, keep, inner)
        return copy
    if isinstance(value, list):
        items = [map_strings(item, change, keep, name) for item in value]
        if not isinstance(value, YamlList):
            return items
        again = YamlList(value.line)
        again.extend(items)
        again.lines = value.lines
        return again
    return value


def to_plain(value: Any) -> Any:
    """Returns the value as plain dicts and lists, without lines."""
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, list) else value


def load(text: str) -> Any:
    """Parses the only document of a text; returns None for an empty text.

    Objects are `YamlMap`, lists are `YamlList`; both are plain otherwise.

    Raises:
        YamlError: the text is not YAML, or says what plain data cannot hold.
    """
    try:
        return _load(text)
    except YamlError as error:
        from proctor.yaml_errors import quote_line

        raise YamlError(quote_line(text, error.line, str(error)), error.line) from None


def _load(text: str) -> Any:
    """Does what `load` does; messages do not quote the line yet."""
    import yaml

    replacements = _line_end_replacements(text)
    data = _encode_source(text.translate(replacements) if replacements else text)
    loader = _loader_class()(data)
    try:
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = data.count(b"\n", 0, error.position) + 1
        code = ord(error.character) if isinstance(error.character, str) else int(error.character)
        raise YamlError(f"The character U+{code:04X} is not allowed in YAML; remove it.", line) from None
    except yaml.MarkedYAMLError as error:
        raise _explain(text, error) from None
    finally:
        loader.dispose()
    originals = {private: end for end, private in replacements.items()}
    return None if node is None else _Constructor(len(text) + MAX_NODES, originals).construct(node, 0)


def _explain(text: str, error: Any) -> YamlError:
    """Turns an error of the parser into a sentence for users."""
    from proctor.yaml_errors import Mistake, explain_mistake

    mark = error.problem_mark or error.context_mark
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    if mark is None:
        return YamlError(f"The text is not YAML: {problem}.", 1)
    if "maximum nesting depth" in problem:  # libyaml's own limit, since PyYAML 6.0.4
        return _too_deep(mark.line + 1)
    begin = error.context_mark or mark
    lines = text.split("\n")
    mistake = Mistake(lines, problem, mark.line, mark.column, begin.line, begin.column)
    line, message = explain_mistake(mistake) or (mark.line, f"The text is not YAML: {problem}.")
    # The end of a text without a line break is on the next line to the parser.
    return YamlError(message, min(line, len(lines) - 1) + 1)


def _line_end_replacements(text: str) -> dict[int, int]:
    """Returns replacements for the characters at which the parser would wrongly break lines."""
    if text.isascii() or not any(chr(end) in text for end in _LINE_ENDS):
        return {}
    used_codes = {*map(ord, set(text)), *(int(code, 16) for code in _ESCAPED.findall(text))}
    replacements = dict(
        zip(_LINE_ENDS, (code for code in _PRIVATE_USE if code not in used_codes), strict=False)
    )
    if len(replacements) < len(_LINE_ENDS):
        raise YamlError("The text uses all private-use characters; remove some.", 1)
    return replacements


def _encode_source(text: str) -> bytes:
    """Encodes the text as UTF-8 for the parser; refuses lone carriage returns."""
    lone = _LONE_RETURN.search(text) if "\r" in text else None
    if lone is not None:
        line = text.count("\n", 0, lone.start()) + 1
        raise YamlError(
            "There is a carriage return without a line feed. End each line with a line feed.", line
        )
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise YamlError(
            "Half of a character (a surrogate) is not allowed; write the whole character.", line
        ) from None


@cache
def _loader_class() -> Any:
    """PyYAML's composer in C, which leaves plain scalars for this module to read."""
    import yaml
    from yaml.cyaml import CParser  # type: ignore[attr-defined]  # not in the types of the package

    scalar_node, sequence_node = yaml.ScalarNode, yaml.SequenceNode

    class Loader(CParser):
        """Gives every node a tag without looking at its text, and stops where they nest too deep."""

        depth = 0

        def resolve(self, kind: Any, _value: Any, implicit: Any) -> str:
            """The tag of a node that names none."""
            if kind is scalar_node:
                return _PLAIN if implicit[0] else _STR
            return _SEQ if kind is sequence_node else _MAP

        def descend_resolver(self, parent: Any, _index: Any) -> None:
            """Counts the levels, since the composer calls itself for each and would exhaust the stack."""
            self.depth += 1
            if self.depth > MAX_NESTING + 1:
                raise _too_deep(parent.start_mark.line + 1)

        def ascend_resolver(self) -> None:
            """Ends a level."""
            self.depth -= 1

    return Loader


class _Constructor:
    """Turns composed nodes into plain data, once."""

    def __init__(self, max_values: int, originals: dict[int, int]) -> None:
        self._max_values = max_values
        self._originals = originals
        self._count = 0
        self._open: set[int] = set()

    def construct(self, node: Any, depth: int) -> Any:
        self._count += 1
        kind = node.id
        if self._count > self._max_values:
            raise YamlError(
                f"The text expands to more than {self._max_values:,} values; use fewer aliases.",
                node.start_mark.line + 1,
            )
        if kind == "scalar":
            text: str = self._text(node) if self._originals else node.value
            tag = node.tag
            if tag == _STR or (tag == _PLAIN and text and text[0] not in _FIRST_OF_SPECIAL):
                return text
            return _read_scalar(tag, text, node.start_mark.line + 1)
        line = node.start_mark.line + 1
        if depth >= MAX_NESTING:
            raise _too_deep(line)
        if id(node) in self._open:
            raise YamlError("An alias is inside the value that it refers to.", line)
        if node.tag != (_SEQ if kind == "sequence" else _MAP):
            raise _unknown_tag(node.tag, line)
        self._open.add(id(node))
        collection = (
            self._construct_list(node, line, depth)
            if kind == "sequence"
            else self._construct_map(node, line, depth)
        )
        self._open.discard(id(node))
        return collection

    def _construct_list(self, node: Any, line: int, depth: int) -> YamlList:
        items = YamlList(line)
        lines = items.lines
        for child in node.value:
            items.append(self.construct(child, depth + 1))
            lines.append(child.start_mark.line + 1)
        return items

    def _construct_map(self, node: Any, line: int, depth: int) -> YamlMap:
        fields = YamlMap(line)
        lines = fields.lines
        merged: list[YamlMap] | None = None
        for key_node, child in node.value:
            key_line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                if key_node.id == "mapping" and key_node.start_mark.index == node.start_mark.index + 1:
                    raise YamlError("A value that begins with `{{` needs quotes.", key_line)
                raise YamlError("The name of a field is a list or an object; write text.", key_line)
            key: str = self._text(key_node) if self._originals else key_node.value
            if key == "<<" and key_node.tag == _PLAIN:
                if merged is not None:
                    raise YamlError("The merge key `<<` appears twice. Write one list.", key_line)
                merged = _merged_objects(self.construct(child, depth + 1), key_line)
                continue
            if key in lines:
                first = lines[key]
                raise YamlError(f"Field {key!r} is already on line {first}. Remove one of them.", key_line)
            lines[key] = key_line
            fields[key] = self.construct(child, depth + 1)
        for other in merged or ():
            for key, value in other.items():
                if key not in fields:
                    fields[key], fields.lines[key] = value, other.lines[key]
        return fields

    def _text(self, node: Any) -> str:
        text: str = node.value
        return text if text.isascii() else text.translate(self._originals)


def _merged_objects(value: Any, line: int) -> list[YamlMap]:
    """Returns the objects of a merge key `<<`; of several, the first takes precedence."""
    objects = value if isinstance(value, list) else [value]
    if not all(isinstance(item, YamlMap) for item in objects):
        raise YamlError(
            "The merge key `<<` needs an object or a list of objects. Write the fields out.", line
        )
    return objects


def _unknown_tag(tag: str, line: int) -> YamlError:
    message = f"The tag {_short_tag(tag)} is unknown. Remove it, or put the value in quotes."
    return YamlError(message, line)


def _too_deep(line: int) -> YamlError:
    return YamlError(f"Lists and objects nest more than {MAX_NESTING} levels deep; flatten them.", line)


def _read_scalar(tag: str, text: str, line: int) -> Any:
    if tag == _STR:
        return text
    if tag != _PLAIN:
        return _read_tagged_scalar(tag, text, line)
    if text and text[0] not in _FIRST_OF_SPECIAL:
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return _read_number(text, line)


def _read_number(text: str, line: int) -> Any:
    if _INT.fullmatch(text):
        return _read_integer(text, 10, line)
    if _BASED_INT.fullmatch(text):
        return _read_integer(text, 0, line)
    if _INFINITY_OR_NAN.fullmatch(text):
        raise YamlError(
            f"{text} is a number that JSON cannot represent; put it in quotes if it is text.", line
        )
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise YamlError(f"{text} is a number that is too large; put it in quotes if it is text.", line)
        return number
    return text


def _read_integer(text: str, base: int, line: int) -> int:
    # Leading zeros aside, 24 characters are enough for every number of 64 bits in each base.
    digits = text if base == 0 else text.lstrip("+-").lstrip("0")
    number = int(text, base) if len(digits) <= 24 else 1 << 64
    if -(1 << 63) <= number < 1 << 64:
        return number
    raise YamlError(f"The number {text[:24]} does not fit in 64 bits; put it in quotes.", line)


def _read_tagged_scalar(tag: str, text: str, line: int) -> Any:
    """A scalar with a core tag of its own, such as `!!int "3"`."""
    value = _read_scalar(_PLAIN, text, line)
    types = _TAG_TYPES.get(tag.removeprefix(_CORE)) if tag.startswith(_CORE) else None
    if types is None:
        raise _unknown_tag(tag, line)
    if type(value) not in types:
        raise YamlError(f"{text!r} does not match its tag {_short_tag(tag)}.", line)
    return float(value) if tag == _CORE + "float" else value


def _short_tag(tag: str) -> str:
    return "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag
