"""Two hundred texts that act on whoever shows them raw, in named families, and scans for what is left raw.

Each text has `EVIL`, so that what is made of it can be recognised, and most have a line `FORGED`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser

from markdown_it import MarkdownIt

EVIL = "evil.example"
FORGED = "FORGED"

_SPLICES = ("{}", "a {} b", f"{EVIL} {{}}", f"{{}}\n{FORGED}: all passed")
"""How each sequence is put into a text."""

_SEQUENCES: dict[str, tuple[str, ...]] = {
    "ansi": ("\x1b[2J\x1b[H", "\x1b[31mred\x1b[0m", "\x1b[8mhidden", "\x1b[1A\x1b[2K"),
    "osc": ("\x1b]0;title\x07", f"\x1b]8;;https://{EVIL}\x1b\\click\x1b]8;;\x1b\\", "\x1b]52;c;ZXZpbA==\x07"),
    "dcs": ("\x1bP+q544e\x1b\\", "\x1b_payload\x1b\\"),
    "c1": ("\x9b2J", "\x9d0;title\x9c", "\x85next"),
    "c0": ("\x00nul", "\x07\x08\x08\x08back", "100 %\rover", "\x0b\x0cpage", "\x7fdel"),
    "lines": (f"a\u2028{FORGED}", f"a\u2029{FORGED}", f"a\r{FORGED}", f"a\x1e{FORGED}"),
    "bidi": ("\u202egnp.exe\u202c", "\u2066\u2067isolate\u2069", "\u200f\u200e\u061cmark"),
    "unseen": ("pa\u200bss", "a\u200db", "a\u2060b\ufeff", "soft\xadhyphen", "tag\U000e0041\U000e007f"),
    "fillers": ("\u3164name", "\u115fname", "a\ufe0fb", "a\U000e0100b"),
    "workflow": ("::error::forged", "::add-mask::x", "##[error]forged", "##vso[task.complete]x"),
}
_TEXTS: dict[str, tuple[str, ...]] = {
    "formula": (
        *(f'{sign}HYPERLINK("http://{EVIL}")' for sign in "=+-@"),
        *(
            f"{sign}cmd|' /C calc'!A0 {EVIL}"
            for sign in ("=", "+", "-", "@", "\t=", "\r=", "\n=", "＝", "'=")
        ),
    ),
    "markdown": (
        f"[click](https://{EVIL})",
        f"![pixel](https://{EVIL}/p.png)",
        f"[click][ref]\n\n[ref]: https://{EVIL}",
        f"<https://{EVIL}>",
        f"https://{EVIL}/a and www.{EVIL}.com and HTTP://{EVIL}",
        f"mail me@{EVIL} or @{EVIL.split('.')[0]} about #12 and GH-12",
        f"# heading {EVIL}\n## and another",
        f"| a | b |\n|---|---|\n| {EVIL} | x |",
        f"```\n</code></pre>[a](https://{EVIL})\n```",
        f"`````` [a](https://{EVIL})",
        f"- item {EVIL}\n- item\n\n---\n\n1. one",
        f"a\\[b](https://{EVIL}) \\",
        f"$\\href{{https://{EVIL}}}{{x}}$",
        f"<!-- [x](https://{EVIL}) --> ]]>",
    ),
    "html": (
        f"<script src=//{EVIL}></script>",
        f"<img src=x onerror=alert('{EVIL}')>",
        f"</textarea></title></style><iframe src=//{EVIL}>",
        f"\"><evil-element evil-attribute='{EVIL}'>",
        f"' evil-attribute=\"{EVIL}\" x='",
        f"</details></summary></code><a href='javascript:{EVIL}'>x</a>",
        f"</script><svg/onload=location='//{EVIL}'>",
        f"&lt;b&gt; &#60;evil-element&#62; {EVIL}",
        f"{{{{ 7*7 }}}} {{% include '{EVIL}' %}}",
    ),
    "xml": (f"]]><evil-element>{EVIL}", f"&evil; <?xml {EVIL}?>", f"\ufffe\uffff\ufdd0 {EVIL}"),
    "rich": (
        f"[bold red]{EVIL}[/]",
        f"[link=https://{EVIL}]x[/link]",
        f":boom: {EVIL} :bomb:",
        f"[/] {EVIL}",
    ),
    "wide": (
        f"עברית {EVIL} العربية 123",
        f"e{chr(0x301) * 60} {EVIL}",
        f"👨‍👩‍👧 日本語 {EVIL} 1️⃣",
        f"tab\tstop\t{EVIL}",
        f"\ufeff{EVIL}",
        "x" * 20_000 + EVIL,
    ),
    "words": (f"-o {EVIL}", f"$(touch {EVIL})", f"'; touch {EVIL} #"),
}


def _every_text() -> dict[str, tuple[str, ...]]:
    spliced = {
        family: tuple(splice.format(sequence) for sequence in sequences for splice in _SPLICES)
        for family, sequences in _SEQUENCES.items()
    }
    return spliced | _TEXTS


FAMILIES = _every_text()
HOSTILE_TEXTS = tuple(text for texts in FAMILIES.values() for text in texts)
assert len(set(HOSTILE_TEXTS)) == 200

_INVISIBLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0xFE00, 0xFE0E)}
_JOINERS = "\u200c\u200d"
_CI_COMMAND = re.compile(r"^\s*::|##\[|##vso\[|##teamcity\[", re.MULTILINE)


def raw_characters(text: str) -> list[str]:
    """Characters that a terminal acts on, or that nobody sees; joiners may join emoji and letters."""
    unsafe = {
        ascii(letter)
        for letter in set(text) - {"\n", "\t", *_JOINERS}
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        or ord(letter) in _INVISIBLE
        or 0xE0000 <= ord(letter) < 0xE1000
    }
    for joiner in re.finditer(f"[{_JOINERS}]", text):
        place = joiner.start()
        before, after = text[max(0, place - 1) : place], text[place + 1 : place + 2]
        if not (before > "\u02ff" and after > "\u02ff"):
            unsafe.add(ascii(joiner[0]))
    return [f"a raw {letter}" for letter in sorted(unsafe)]


def terminal_faults(text: str) -> list[str]:
    """What is wrong with text that a terminal shows, or that a CI system reads as a log."""
    faults = raw_characters(text)
    faults += [f"a CI command {match[0]!r}" for match in _CI_COMMAND.finditer(text)]
    faults += [f"a forged line {line[:60]!r}" for line in text.splitlines() if line.startswith(FORGED)]
    return faults


_OUR_HTML = re.compile(r"<!-- -->|</?(?:details|summary|b|code|div|sub)>")
_AUTOLINK = re.compile(
    r"(?i)(?:https?|ftp)://|mailto:|\bwww\.|(?<!\w)@\w|[\w.]@[\w-]+\.\w|(?<!\w)#\d|\bGH-\d"
)
"""What GitHub links by itself within a text."""


def markdown_faults(text: str) -> Iterator[str]:
    """Markup of foreign text, in what a renderer makes of a page."""
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        for part in (token, *(token.children or ())):
            if part.type in ("link_open", "image"):
                address = str(part.attrGet("href") or part.attrGet("src"))
                if EVIL in address:
                    yield f"a link to {address!r}"
            elif part.type in ("html_block", "html_inline") and (markup := _OUR_HTML.sub("", part.content)):
                yield from html_faults(part.content) if part.type == "html_block" else [f"HTML {markup!r}"]
            elif part.type == "text" and (link := _AUTOLINK.search(part.content)):
                yield f"a link that GitHub makes of {part.content[max(0, link.start() - 9) :][:40]!r}"
            elif part.type == "inline" and part.content.startswith(FORGED):
                yield f"a forged paragraph {part.content[:60]!r}"
    yield from raw_characters(text)


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "img", "object", "embed", "evil-element", "textarea"):
            data = dict(attrs).get("src") or ""
            if not data.startswith("data:image/svg+xml;base64,"):
                self.faults.append(f"an element <{tag}> {attrs}")
        for name, value in attrs:
            if name.startswith(("on", "evil")) or "javascript:" in (value or "").casefold():
                self.faults.append(f"an attribute {name}={value!r}")
            if name in ("href", "src", "action", "srcset", "style") and EVIL in (value or ""):
                self.faults.append(f"an address {value!r}")


def html_faults(text: str) -> list[str]:
    """Elements and attributes that foreign text made."""
    return [*_Page(text).faults, *raw_characters(text)]
