"""`proctor targets`: who can be asked, and whether they answer."""

from __future__ import annotations

import asyncio
import os

import click

from proctor.cli.options import show, store_path
from proctor.errors import ExitCode, ProctorError
from proctor.model import Message, Params, Prompt
from proctor.reports.figures import cost, milliseconds
from proctor.session.reaching import probe
from proctor.targets.naming import parse_target

_KINDS = (
    ("openai:MODEL[@URL]", "OPENAI_API_KEY", "OpenAI, or any OpenAI-compatible server by its base URL"),
    ("anthropic:MODEL", "ANTHROPIC_API_KEY", "Anthropic's messages; aliases opus, sonnet, haiku"),
    ("google:MODEL", "GEMINI_API_KEY", "Google's generateContent"),
    ("deepseek:MODEL", "DEEPSEEK_API_KEY", "DeepSeek; alias deepseek_chat"),
    ("groq:MODEL", "GROQ_API_KEY", "Groq"),
    ("mistral:MODEL", "MISTRAL_API_KEY", "Mistral"),
    ("together:MODEL", "TOGETHER_API_KEY", "Together"),
    ("nvidia:MODEL", "NVIDIA_API_KEY", "NVIDIA NIM"),
    ("ollama:MODEL", None, "Ollama on this machine, or at $OLLAMA_HOST"),
    ("local[:FILE.gguf]", None, "the embedded SmolLM2-135M, or any GGUF file; needs proctor[local]"),
    (
        "command:ARGV…",
        None,
        "a program: prompt on stdin or as {PROMPT}, answer on stdout or in {OUTPUT_FILE}",
    ),
    ("function:MODULE:NAME", None, "a Python function, sync or async"),
    ("replay:FILE", None, "the outputs of an exported run, by case id"),
    ("scripted:FILE", None, "answers by case id or glob"),
    ("echo", None, "the last user message"),
)


@click.group("targets")
def command() -> None:
    """Show what can be asked, and try it with one call."""


@command.command("list")
def list_targets() -> None:
    """Every kind of target, how it is written, and which key it wants."""
    lines = []
    for form, variable, what in _KINDS:
        key = (
            "no key" if variable is None else f"{variable} {'set' if os.environ.get(variable) else 'not set'}"
        )
        lines.append(f"{form:<22}  {key:<26}  {what}")
    show(
        [*lines, "", "Another host gets the key in PROCTOR_API_KEY, if that is set, and never another one's."]
    )


@command.command("check")
@click.argument("target", nargs=-1, required=True)
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), default=30.0, show_default=True
)
def check(target: tuple[str, ...], timeout_s: float) -> int:
    """Ask each TARGET one short question; exit code 3 when one does not answer."""
    specs = [parse_target(word, Params(max_tokens=16), os.environ) for word in target]
    question = Prompt(messages=(Message(role="user", content="Reply with the word ready."),), case_id="check")
    code = ExitCode.OK
    for spec in specs:
        try:
            output = asyncio.run(
                probe(spec, question, os.environ, timeout_s=timeout_s, prices_folder=store_path(None).parent)
            )
        except ProctorError as error:
            code = ExitCode.NOT_MEASURED
            show([f"{spec.name}: no answer: {error}"])
            continue
        reported = f", reports itself as {output.model}" if output.model else ""
        answer = repr(" ".join(output.text.split())[:60])
        took = f"in {milliseconds(output.latency_ms)}, cost {cost(output.cost_usd)}{reported}"
        show([f"{spec.name}: answered {answer} {took}"])
    return code
