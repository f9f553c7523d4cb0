"""The rule `related-cases`: cases that look related in a suite that names no cluster.

Evidence is a field of metadata, a tag or an id that groups cases, or a long text that several prompts have.
It counts if at least `MIN_GROUPS` groups of two or more hold half of the cases. What very many cases share
is a template of the whole suite and makes no group.

Memory does not grow with the suite: of very many groups a fair sample is kept, those with the smallest
hashes, each with all of its cases. Source: P. Gibbons, "Distinct sampling for highly-accurate answers to
distinct values queries and event reports" (2001).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any, Final, Literal
from zlib import crc32

from msgspec import Struct

from proctor.clusters import make_cluster_lookup
from proctor.lazy_pattern import lazy_pattern
from proctor.lint.findings import Finding, quote_text
from proctor.lint.suppressions import silenced_codes
from proctor.model import Case
from proctor.plurals import pluralize

CODE: Final = "related-cases"
MIN_CASES: Final = 10
"""Smaller suites are not looked at."""
MIN_GROUPS: Final = 3
"""Fewer groups of two or more cases are no evidence."""
MIN_SHARE: Final = 0.5
"""At least this share of the cases must be in such groups."""
MIN_TEXT_LENGTH: Final = 200
"""Shorter texts, in characters, are shared by chance."""
MAX_GROUPS: Final = 4096
"""At most this many groups of one kind are kept."""
MAX_FIELDS: Final = 32
"""At most this many fields and prefixes are looked at, those that come first."""

_MAX_SHARE: Final = 0.25
"""What a larger share of the cases has groups nothing."""
_MAX_WEAK_SHARE: Final = 0.1
_MAX_WEAK_SIZE: Final = 10
"""Of weak evidence, a group is at most as large as the larger of these two."""
_MAX_MEMBERS: Final = 1000
"""A text that more cases have is a template."""
_MAX_NAME_LENGTH: Final = 100
_BITS: Final = 0xFFFFFFFF
_HIGHEST_BIT: Final = 0x80000000
_MIX: Final = 0x9E3779B1
"""Spreads checksums of values that differ in one letter; an odd number, so that none become equal."""
_MAX_TEXTS: Final = 32
"""At most this many texts of a case are compared."""
_STRONG_NAMES: Final = frozenset(
    (
        *("document", "doc", "passage", "article", "book", "story", "transcript"),
        *("conversation", "dialog", "dialogue", "session", "thread", "parent"),
    )
)
"""What a field is called that says which cases belong together."""
_WEAK_NAMES: Final = frozenset(
    (
        *("source", "file", "filename", "url", "uri", "context", "title", "image", "video", "audio"),
        *("template", "scenario", "patient", "customer", "repo", "repository", "group", "cluster", "family"),
        *("paragraph", "chapter"),
    )
)
"""What a field is called that says so, or else where the cases come from or what kind they are of."""
_NAME_PART: Final = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME_ENDS: Final = frozenset(("id", "ids", "key", "name", "hash", "path", "ref"))
"""Words behind such a name; not `number` or `index`, which begin again in each document."""
_TAG: Final = lazy_pattern(r"([A-Za-z][A-Za-z_]*?)([:=/#]|[-_](?=[A-Za-z]?\d))(?=.)")
"""The prefix of a tag and its separator; after `-` and `_` a number must follow, as in `doc-12`."""


class _Group(Struct):
    name: str
    size: int
    members: array[int] | None
    """The positions of its cases, up to one more than `_MAX_MEMBERS`; only of texts."""


class _Summary(Struct, frozen=True):
    """What one kind of evidence says of the whole suite."""

    cases: int
    """The number of cases in groups of two or more; of a sample an estimate."""
    groups: int
    example: str
    """The name of the largest group."""
    size: int
    """The number of its cases."""
    is_exact: bool
    """Whether all groups were kept."""


class _GroupSample:
    """The groups of one kind of evidence, or a fair sample of them."""

    def __init__(self, *, weak: bool = False) -> None:
        self.weak = weak
        """Whether large groups mean little, as of a field `source`."""
        self._groups: dict[int, _Group] = {}
        self._mask = 0
        """The bits of a hash that are 0 for all groups that are kept."""

    def add(self, value: str | bytes, name: str = "", member: int | None = None) -> None:
        """Adds a case to the group of a value.

        Args:
            value: what the cases of a group have in common.
            name: what the group is called in messages.
            member: the position of the case; only of texts.
        """
        key = crc32(value.encode("utf-8", "replace") if isinstance(value, str) else value) * _MIX & _BITS
        if key & self._mask:
            return
        group = self._groups.get(key)
        if group is None:
            members = None if member is None else array("I")
            group = self._groups[key] = _Group(name[:_MAX_NAME_LENGTH], 0, members)
            if len(self._groups) > MAX_GROUPS:
                self._mask = self._mask >> 1 | _HIGHEST_BIT
                self._groups = {key: group for key, group in self._groups.items() if not key & self._mask}
        group.size += 1
        if member is not None and group.members is not None and len(group.members) <= _MAX_MEMBERS:
            group.members.append(member)

    def summarize(self, total: int) -> _Summary | None:
        """Returns what the groups say of a suite; None if they are no evidence.

        A case that shares several texts is in as many groups, and counts once; see `_estimate_cases`.

        Args:
            total: the number of cases of the suite.
        """
        limit = total * _MAX_SHARE
        if self.weak:
            limit = min(limit, max(_MAX_WEAK_SIZE, total * _MAX_WEAK_SHARE))
        groups = [
            group
            for group in self._groups.values()
            if 2 <= group.size <= limit and (group.members is None or group.size <= _MAX_MEMBERS)
        ]
        text_groups, cases = groups, sum(group.size for group in groups)
        by_members = {group.members.tobytes(): group for group in groups if group.members is not None}
        if by_members:  # two texts that the same cases have are one group
            groups = list(by_members.values())
            cases = len({member for group in groups for member in group.members or ()})
        scale = (_HIGHEST_BIT << 1) // ((~self._mask & _BITS) + 1)
        if by_members and self._mask:
            memberships = Counter(member for group in text_groups for member in group.members or ())
            cases = max(cases, _estimate_cases(memberships.values(), scale))
            texts_per_case = max(1.0, memberships.total() * scale / cases)
            count = max(len(groups), round(len(text_groups) * scale / texts_per_case))
        else:
            cases, count = cases * scale, len(groups) * scale
        cases = min(total, cases)
        if count < MIN_GROUPS or cases < total * MIN_SHARE:
            return None
        largest = max(groups, key=lambda group: group.size)
        return _Summary(cases, count, largest.name, largest.size, is_exact=not self._mask)


def _estimate_cases(memberships: Collection[int], scale: int) -> int:
    """Returns about how many cases share texts, by a sample of the texts that are shared.

    It is the square of the sum of the numbers of texts that the cases share, divided by the sum of their
    squares. By the inequality of Cauchy and Schwarz that is at most the number of these cases, and equal to
    it if all share as many.

    Args:
        memberships: how many texts of the sample each case shares, of those that share any.
        scale: 1 / the chance of a text to be in the sample.
    """
    total = sum(memberships) * scale
    squares = sum(count * (count - 1) for count in memberships) * scale**2 + total
    return round(total**2 / squares)


class RelatedCasesRule:
    """Looks for evidence in a stream of cases that they are related."""

    def __init__(self) -> None:
        self._count = 0
        self._is_silenced = False
        self._fields: dict[str, _GroupSample] = {}
        """The groups by what `--cluster` would be."""
        self._ids = _GroupSample()
        self._find_base = make_cluster_lookup("id")
        self._has_variants = False
        self._texts = _GroupSample(weak=True)

    def add(self, case: Case) -> None:
        """Adds the next case. A case that silences the rule silences it for the suite."""
        self._count += 1
        if case.metadata:
            if "lint" in case.metadata and CODE in silenced_codes(case):
                self._is_silenced = True
            self._add_metadata(case.metadata)
        if case.tags:
            self._add_tags(case)
        if self._has_variants or "[" in case.id or "~" in case.id:
            self._add_id(case)
        self._add_texts(case)

    def _add_id(self, case: Case) -> None:
        """Adds an id, from the first with a variant on: most suites have none."""
        self._has_variants = True
        if self._find_base is not None:
            base = self._find_base(case)
            self._ids.add(base, base)

    def _add_metadata(self, metadata: dict[str, Any]) -> None:
        for name, value in metadata.items():
            strength = _name_strength(name)
            if strength is None or isinstance(value, bool) or not isinstance(value, str | int):
                continue
            text = str(value)
            if text and (sample := self._find_field(f"metadata.{name}", strength)) is not None:
                sample.add(text, text)

    def _add_tags(self, case: Case) -> None:
        prefixes: set[str] = set()
        for tag in case.tags:
            prefix, strength = _tag_prefix(tag)
            if strength is None or prefix in prefixes:
                continue
            prefixes.add(prefix)  # only the first tag that begins so counts, as for `--cluster`
            if (sample := self._find_field(f"tag:{prefix}", strength)) is not None:
                sample.add(tag, tag)

    def _find_field(self, field: str, strength: str) -> _GroupSample | None:
        """Returns the groups of a field; None if there are too many fields."""
        sample = self._fields.get(field)
        if sample is None and len(self._fields) < MAX_FIELDS:
            sample = self._fields[field] = _GroupSample(weak=strength == "weak")
        return sample

    def _add_texts(self, case: Case) -> None:
        texts: dict[str | bytes, str] = {}
        for message in case.input:
            if len(message.content) >= MIN_TEXT_LENGTH:
                texts.update((text, text) for text in _long_texts(message.content))
            for part in message.parts:
                if not isinstance(part, str) and (content := part.text or part.data):
                    texts[content] = part.path
        if not texts:
            return
        for text in sorted(texts, key=len, reverse=True)[:_MAX_TEXTS] if len(texts) > _MAX_TEXTS else texts:
            self._texts.add(text, texts[text], self._count)

    def finish(self) -> Finding | None:
        """Returns the finding with the strongest evidence; None if the cases do not look related."""
        if self._is_silenced or self._count < MIN_CASES:
            return None
        samples = dict(self._fields)
        if self._has_variants:
            samples["id"] = self._ids
        summaries = {
            field: summary
            for field, sample in samples.items()
            if (summary := sample.summarize(self._count)) is not None
        }
        if summaries:
            field, summary = max(summaries.items(), key=lambda item: (item[1].cases, -item[1].groups))
            return self._describe(summary, field)
        summary_of_texts = self._texts.summarize(self._count)
        return None if summary_of_texts is None else self._describe(summary_of_texts, None)

    def _describe(self, summary: _Summary, field: str | None) -> Finding:
        if field is None:
            what = "share a long text or an attachment in their prompts with other cases"
            remedy = (
                "Add a metadata field for it, such as `document`, and run with `--cluster metadata.document`"
            )
        elif field == "id":
            what = "have ids that are the same as those of other cases before `[` or `~`"
            remedy = "Run with `--cluster id`"
        elif field.startswith("tag:"):
            what = f"share their tag `{field.removeprefix('tag:')}…` with other cases"
            remedy = f"Run with `--cluster {field}`"
        else:
            what = f"share their `{field}` with other cases"
            remedy = f"Run with `--cluster {field}`"
        about = "" if summary.is_exact else "about "
        message = (
            f"Cases look related: {about}{summary.cases:,} of {self._count:,} {what} ({about}"
            f"{pluralize(summary.groups, 'group')}, such as {quote_text(summary.example)} with "
            f"{pluralize(summary.size, 'case')}), so intervals would be too narrow. {remedy}, or with "
            "`--cluster none` if they are independent."
        )
        return Finding(CODE, message, field if field is not None and field != "id" else None)


@lru_cache(maxsize=1024)
def _name_strength(name: str) -> Literal["strong", "weak"] | None:
    """Returns how much a field's name says that its values group cases: its last word that is no `id`."""
    words = [word.lower() for word in _NAME_PART.findall(name)]
    while len(words) > 1 and words[-1] in _NAME_ENDS:
        words.pop()
    if not words:
        return None
    if words[-1] in _STRONG_NAMES:
        return "strong"
    return "weak" if words[-1] in _WEAK_NAMES else None


@lru_cache(maxsize=1024)
def _tag_prefix(tag: str) -> tuple[str, Literal["strong", "weak"] | None]:
    """Returns the prefix of a tag with its separator, and how much it says that such tags group cases."""
    match = _TAG.match(tag)
    return ("", None) if match is None else (match[0], _name_strength(match[1]))


def _long_texts(text: str) -> Iterator[str]:
    """Yields the long paragraphs and lines of a text, and its beginning, where a passage mostly stands."""
    yield text[:MIN_TEXT_LENGTH]
    for paragraph in text.split("\n\n"):
        if len(paragraph) >= MIN_TEXT_LENGTH:
            yield paragraph.strip()
            if "\n" in paragraph:
                yield from (line for line in paragraph.split("\n") if len(line) >= MIN_TEXT_LENGTH)
