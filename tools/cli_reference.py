"""The reference of the command line, written from the commands themselves: one page per command.

`site_hooks.py` adds the pages to the site, so a new command or option appears by itself. Descriptions are the
texts of `--help`; a page adds an anchor for each option, and the key of `proctor.toml`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import click

from proctor.cli.config_defaults import ConfigDefaultsCommand, config_names
from proctor.cli.main import COMMANDS, load_command
from proctor.cli.options import GroupedCommand

FOLDER = "reference/cli"
_MARKER = "<!-- commands -->"
"""Stands for the table of commands in `docs/reference/cli/index.md`."""
_CODE = re.compile(r"(`[^`]+`)")
_NAMES = "index.md#names-and-defaults"
_ARGUMENTS = {
    "run SUITE": f"The [suites]({_NAMES}) to run. Default: `suite` of `proctor.toml`.",
    "validate SUITE": f"The [suites]({_NAMES}) to check. Default: `suite` of `proctor.toml`.",
    "completion SHELL": "The shell. Default: the one of `$SHELL`.",
    "schema NAME": "The file that the schema is for.",
    "targets check TARGET": f"The [targets]({_NAMES}) to check. Default: all of the targets file.",
    "models pull MODEL": "The model. Default: the chat model.",
    "init FOLDER": "The folder to write into. Default: the working directory.",
    "keys new NAME": "The name of the new key. Default: `default`.",
    "keys show NAME": "The name of the key. Default: `default`.",
    "keys trust FILE": "The file with the public key, or `-` for stdin.",
    "store backup FILE": "The new file.",
    "runs tag TAG": "The tag.",
    "drift SUITE": f"The [suite]({_NAMES}).",
    "SUITE": f"The [suite]({_NAMES}).",
    "attest RUN": f"The [run]({_NAMES}), or the path of a bundle to sign.",
    "RUN": f"The [run]({_NAMES}).",
    "RUN|BUNDLE": f"A [run]({_NAMES}), or the path of a bundle.",
    "BUNDLE": "The path of a bundle, a folder or an archive.",
    "BASELINE CANDIDATE... | GROUP": f"The [runs]({_NAMES}), or one group or run of a group.",
    "NAME": "The name of a saved suite.",
    "NAME[@v2]": "The name of a saved suite, with a version or without.",
    "OLD NEW | NAME [v1 [v2]]": "Two suites, or a saved suite with one or two of its versions.",
    "STORE": "The address of a store.",
    "FROM": "The address of the store to copy.",
    "TO": "The address of the new store.",
    "NEWFILE": "The new file.",
    "KEY": "The name or the full fingerprint of a key.",
    "FILE": "A file, or `-` for stdin.",
}
"""What each argument is, by the command and its name or by the name alone; help texts do not say it."""
_DEFAULT = re.compile(r"\s*\[default: (.+)\]$|\s*\(default: (.+)\)\.$", re.DOTALL)
_WORD = re.compile(
    r"(?<![\w-])(--[a-z][\w-]*|\$[A-Z][A-Z_]+|\w+\.(?:toml|yaml)\b|(?:~|\.proctor)/[\w./-]*\w)"
)


def page_names() -> list[str]:
    """Returns the paths of the generated pages within the site, in the order of `proctor --help`."""
    return [f"{FOLDER}/{name}.md" for name in COMMANDS]


def fill_index(markdown: str) -> str:
    """Returns the page `index.md` with the table of commands in place of its marker."""
    rows = []
    for name, line in COMMANDS.items():
        command = load_command(name)
        inner = command.commands if isinstance(command, click.Group) else {}
        links = ", ".join(f"[`{sub}`]({name}.md#proctor-{name}-{sub})" for sub in inner)
        rows.append(f"| [`proctor {name}`]({name}.md) | {_inline(line)}{f'<br>{links}' if links else ''} |")
    return markdown.replace(_MARKER, "\n".join(["| command | what it does |", "|---|---|", *rows]))


def render_page(name: str) -> str:
    """Returns the page of a top-level command as Markdown."""
    return "\n".join(_iter_page(name)) + "\n"


def _iter_page(name: str) -> Iterator[str]:
    command = load_command(name)
    yield from (f"# proctor {name}", "")
    if not isinstance(command, click.Group):
        yield from _iter_command(command, f"proctor {name}", "", 2)
        return
    yield from _iter_description(command)
    yield from ("| command | what it does |", "|---|---|")
    for sub, inner in command.commands.items():
        yield f"| [`proctor {name} {sub}`](#proctor-{name}-{sub}) | {_inline(_first_paragraph(inner))} |"
    yield ""
    for sub, inner in command.commands.items():
        yield from (f"## proctor {name} {sub}", "")
        yield from _iter_command(inner, f"proctor {name} {sub}", sub, 3)


def _iter_command(command: click.Command, path: str, prefix: str, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=path, max_content_width=110)
    yield from _iter_description(command, usage=" ".join([path, *command.collect_usage_pieces(context)]))
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    groups = [("Arguments", [_argument(param, path) for param in arguments])]
    for title, options in _option_groups(command, context):
        groups.append((title, [_option(param, context, prefix) for param in options]))
    for title, entries in groups:
        if entries:
            # An anchor of its own: "Options" is on the page once for each subcommand.
            anchor = f"{prefix and prefix + '-'}{re.sub(r'[^a-z]+', '-', title.lower())}"
            yield from (f"{'#' * level} {title} {{ #{anchor} }}", "", *entries)


def _option_groups(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, list[click.Option]]]:
    """Yields the options under the titles that `--help` has, without hidden ones and `--help` itself."""
    titles = command.titles if isinstance(command, GroupedCommand) else {}
    groups: dict[str, list[click.Option]] = {title: [] for title in titles.values()}
    for param in command.get_params(context):
        if isinstance(param, click.Option) and not param.hidden and "--help" not in param.opts:
            title = titles.get(param.name or "", next(reversed(groups), "Options"))
            groups.setdefault(title, []).append(param)
    yield from groups.items()


def _iter_description(command: click.Command, usage: str = "") -> Iterator[str]:
    """Yields the paragraphs of the help text, with examples in blocks and the usage after the first."""
    for index, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))):
        if paragraph.startswith("\b"):
            lines = paragraph.splitlines()[1:]
            prompt = "$ " if all(line.startswith("proctor ") for line in lines) else ""
            language = "console" if prompt else "text"
            yield from (f"```{language}", *(f"{prompt}{line}" for line in lines), "```", "")
        else:
            yield from (_inline(" ".join(paragraph.split())), "")
        if not index and usage:
            yield from ("```text", usage, "```", "")


def _argument(param: click.Argument, path: str) -> str:
    is_choice = isinstance(param.type, click.Choice)
    name = (param.name or "").upper() if is_choice else param.human_readable_name
    name = re.sub(r"\.{3}$", "", re.sub(r"^\[(.*)\]$", r"\1", name))
    text = _ARGUMENTS.get(f"{path.removeprefix('proctor ')} {name}") or _ARGUMENTS.get(name, "")
    facts = [
        text,
        f"One of {_join_code(param.type.choices)}." if isinstance(param.type, click.Choice) else "",
        "Required." if param.required and "Default: " not in text else "",
        "May be repeated." if param.nargs != 1 and " " not in name else "",
    ]
    return f"`{name}`\n:   {' '.join(filter(None, facts))}\n"


def _option(param: click.Option, context: click.Context, prefix: str) -> str:
    """Returns one option as an item of a definition list; its flags are anchors."""
    flags = [
        f"`{flag}`{{ #{prefix}{flag} }}" if flag.startswith("--") else f"`{flag}`"
        for flag in [*param.opts, *param.secondary_opts]
    ]
    value = "" if param.is_flag or param.count else _metavar(param, context)
    text = param.help or ""
    match = _DEFAULT.search(text)
    extra: Any = param.get_help_extra(context)
    default = next(filter(None, match.groups())) if match else extra.get("default")
    variables = dict.fromkeys(re.findall(r"\$([A-Z][A-Z_]+)", f"${param.envvar} {default}"))
    long = next(flag for flag in param.opts if flag.startswith("--"))
    facts = [
        (_inline(text[: match.start()] + ("." if match[2] else "")) if match else _inline(text)),
        f"Choices: {_join_code(param.type.choices)}." if isinstance(param.type, click.Choice) else "",
        f"Default: {_value(str(default))}." if default not in (None, "") else "",
        f"Range: {_range(param.type)}." if isinstance(param.type, click.IntRange | click.FloatRange) else "",
        "Required." if param.required else "",
        f"Environment variable: {_join_code(variables)}." if variables else "",
        f"Configuration key: `{long[2:]}`." if _is_key(context.command, param, long[2:]) else "",
    ]
    term = ", ".join(flags) + (f" *{_escape(value)}*" if value else "")
    return f"{term}\n:   {' '.join(fact for fact in facts if fact)}\n"


def _metavar(param: click.Option, context: click.Context) -> str:
    if param.metavar:
        return param.metavar
    if isinstance(param.type, click.Choice):
        return " | ".join(map(str, param.type.choices))
    word = param.make_metavar(context).removesuffix(" RANGE")
    return {"FLOAT": "X", "INTEGER": "N"}.get(word, word)


def _range(kind: click.IntRange | click.FloatRange) -> str:
    if None not in (kind.min, kind.max) and not (kind.min_open or kind.max_open):
        return f"{kind.min:,} to {kind.max:,}"
    low = "" if kind.min is None else f"{'more than' if kind.min_open else 'at least'} {kind.min:,}"
    high = "" if kind.max is None else f"{'less than' if kind.max_open else 'at most'} {kind.max:,}"
    return " and ".join(filter(None, [low, high]))


def _is_key(command: click.Command, param: click.Parameter, name: str) -> bool:
    """Returns whether `proctor.toml` can set a parameter; its keys are parameters of `proctor run`."""
    reads = isinstance(command, ConfigDefaultsCommand) or name == "store"
    return reads and name in config_names(param) and name in _config_keys()


@cache
def _config_keys() -> set[str]:
    return {name for param in load_command("run").params for name in config_names(param)}


def _first_paragraph(command: click.Command) -> str:
    return " ".join(re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))[0].split())


def _value(text: str) -> str:
    """Returns a default as code if it is one word, else as text."""
    return _inline(text) if " " in text else f"`{text}`"


def _join_code(words: Iterable[Any]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _inline(text: str) -> str:
    """Returns a help text as Markdown: flags, variables and files as code."""
    parts = (p if i % 2 else _WORD.sub(r"`\1`", p) for i, p in enumerate(_CODE.split(text)))
    return "".join(p if i % 2 else _escape(p) for i, p in enumerate(_CODE.split("".join(parts))))


def _escape(text: str) -> str:
    return re.sub(r"([\\*_\[\]<>|])", r"\\\1", text)
