"""Validates the form of a run, from the page or the API, and converts it to a request and to arguments.

No input becomes a path, a program or an address: a suite is built in or stored, targets are checked by
`allowed_targets`, and the texts of prompts go to the process in files that are named by their digests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, get_args

from proctor.clusters import check_cluster_field
from proctor.comparison.outcomes import SplitName
from proctor.errors import ProctorError, SuiteError, UsageError
from proctor.model import GateMode, PromptTemplate, Suite
from proctor.parameters import VISITOR_PARAMETERS, parse_parameters
from proctor.protocols import Store
from proctor.services.runs.planning.load_prompts import list_stored_prompts, parse_prompt
from proctor.services.runs.starts.allowed_targets import (
    SPLITS,
    RunContext,
    check_allowed,
    list_allowed_targets,
)
from proctor.services.runs.starts.run_form import NUMBER_FIELDS, RunForm, default_number
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS

_INTEGER = re.compile(r"[+-]?[0-9]{1,12}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})(e[+-]?[0-9]{1,2})?", re.IGNORECASE)
_MAX_TAG_LENGTH = 200
MAX_CLUSTER_LENGTH = 200
MAX_PROMPT_LENGTH = 20_000
"""Maximum characters of a prompt that is written in a form."""
MAX_WRITTEN_PROMPTS = 5
_PROMPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_MAX_NAMES = 50
"""Maximum number of targets, judges or tags."""


PROMPT_FIELDS: Final = tuple(
    f"prompt_{part}_{number}" for number in range(1, MAX_WRITTEN_PROMPTS + 1) for part in ("name", "text")
)
"""The names and texts of prompts that are written in the form."""
FIELDS: Final = (
    "suite",
    "version",
    "target",
    "typed",
    "prompt",
    *PROMPT_FIELDS,
    "judge",
    "split",
    *NUMBER_FIELDS,
    "gate_mode",
    "stop_when_shown",
    "cluster",
    "interleave",
    "reuse",
    "tag",
    "all_tag",
    "param",
)
"""The names of all fields."""

RawForm = Mapping[str, Sequence[str]]
"""The values of each field as texts."""


_NO_GATE = "There is no gate. Enter a minimum pass rate."


def list_offered_prompts(store: Store) -> dict[str, PromptTemplate]:
    """Returns the prompts of stored runs that the command line can name and a file can hold, newest first."""
    prompts = list_stored_prompts(store)
    return {
        name: prompt
        for name, prompt in prompts.items()
        if name == name.strip()
        and name.isprintable()
        and not set(name) & set("=/\\")
        and not prompt.is_literal
    }


class FormErrors(UsageError):
    """The form is invalid; `errors` has a sentence for each wrong field."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(" ".join(errors.values()))
        self.errors = dict(errors)


def validate_form(
    store: Store, raw_form: RawForm, context: RunContext, *, require_target: bool = True
) -> RunForm:
    """Validates a form.

    Args:
        store: the store of suites.
        raw_form: the values of each of `CLI_FIELDS`; empty ones have their defaults.
        context: the folder in which it is run.
        require_target: whether there must be a target, as for a start.

    Raises:
        FormErrors: some fields are invalid.
    """
    validator = _FormValidator(raw_form, context)
    suite = validator.parse_suite(store)
    targets = dict.fromkeys((*validator.parse_targets("target"), *validator.parse_targets("typed")))
    validator.check_has_target(suite, targets, needed=require_target)
    stored_prompts = validator.parse_stored_prompts(store)
    written_prompts = validator.parse_written_prompts([prompt.name for prompt in stored_prompts])
    judges = validator.parse_targets("judge")
    numbers = {name: value for name in NUMBER_FIELDS if (value := validator.parse_number(name)) is not None}
    gate_mode = validator.parse_gate_mode(numbers.get("min_pass_rate"))
    stop_when_shown = validator.parse_stop_when_shown(numbers.get("min_pass_rate"), gate_mode)
    cluster = validator.parse_cluster()
    split, interleave, reuse, tags, all_tags = (
        validator.parse_split(),
        validator.parse_interleave(len(targets) * max(1, len(stored_prompts) + len(written_prompts))),
        validator.parse_yes_or_no("reuse"),
        validator.parse_tags(),
        validator.parse_all_tags(),
    )
    params = validator.parse_params()
    validator.check_split(split, numbers.get("holdout", default_number("holdout", context.defaults)))
    if validator.errors:
        raise FormErrors(validator.errors)
    return RunForm(
        suite=validator.tier_name() if suite is None else suite.name,
        version=None if suite is None else suite.version,
        targets=tuple(targets),
        stored_prompts=stored_prompts,
        written_prompts=written_prompts,
        judges=judges,
        split=split,
        numbers=numbers,
        gate_mode=gate_mode,
        stop_when_shown=stop_when_shown,
        cluster=cluster,
        interleave=interleave,
        reuse=reuse,
        tags=tags,
        all_tags=all_tags,
        params=params,
    )


class _FormValidator:
    """Validates a form field by field, and collects errors."""

    def __init__(self, raw_form: RawForm, context: RunContext) -> None:
        self._raw_form = raw_form
        self._context = context
        self._check = partial(
            check_allowed, allowed_targets=list_allowed_targets(context), environ=context.environ
        )
        self.errors: dict[str, str] = {}

    def _get_text(self, field: str) -> str:
        return next((value.strip() for value in reversed(self._raw_form.get(field, ()))), "")

    def parse_suite(self, store: Store) -> Suite | None:
        """Returns the stored suite; None for a built-in one or an invalid name."""
        name = next(iter(reversed(self._raw_form.get("suite", ()))), "")
        version = self._get_text("version")
        if not name:
            self.errors["suite"] = "Choose a suite."
        tier = name.removeprefix(BUILTIN_PREFIX)
        if not name or (tier in TIERS and (tier != name or store.suite(name) is None)):
            return None
        newest = store.suite(name)
        if newest is None or newest.version is None:
            self.errors["suite"] = (
                f"There is no suite {name[:80]!r} in this store. Save it on the Create Suite page first."
            )
            return None
        saved_version = store.suite(name, version) if re.fullmatch(r"v[0-9]{1,9}", version) else None
        if version and saved_version is None:
            message = f"{name[:80]!r} has no version {version[:20]!r}; the newest is {newest.version}."
            self.errors["version"] = message
        return saved_version or newest

    def tier_name(self) -> str:
        """Returns the full name of the built-in suite."""
        return f"{BUILTIN_PREFIX}{self._raw_form['suite'][-1].removeprefix(BUILTIN_PREFIX)}"

    def parse_targets(self, field: str) -> tuple[str, ...]:
        """Returns the names in a field, and checks that each may be called."""
        names = tuple(dict.fromkeys(filter(None, map(str.strip, self._raw_form.get(field, ())))))
        if len(names) > _MAX_NAMES:
            self.errors[field] = f"Choose at most {_MAX_NAMES}."
            return ()
        for name in names:
            try:
                self._check(name)
            except UsageError as error:
                self.errors.setdefault(field, str(error))
        return names

    def parse_stored_prompts(self, store: Store) -> tuple[PromptTemplate, ...]:
        """Returns the prompts of stored runs that are named, each as its newest run has it."""
        names = tuple(dict.fromkeys(filter(None, map(str.strip, self._raw_form.get("prompt", ())))))
        if not names:
            return ()
        known_prompts = list_offered_prompts(store)
        if len(names) > _MAX_NAMES:
            self.errors["prompt"] = f"Choose at most {_MAX_NAMES}."
            return ()
        for name in names:
            if name not in known_prompts:
                self.errors.setdefault(
                    "prompt", f"There is no prompt {name[:80]!r} in the store. Choose one, or write its text."
                )
        return tuple(known_prompts[name] for name in names if name in known_prompts)

    def parse_written_prompts(self, used_names: Sequence[str]) -> tuple[PromptTemplate, ...]:
        """Returns the prompts that are written in the form.

        Args:
            used_names: the names of further prompts.
        """
        prompts: dict[str, PromptTemplate] = {}
        for number in range(1, MAX_WRITTEN_PROMPTS + 1):
            name_field, text_field = f"prompt_name_{number}", f"prompt_text_{number}"
            name, text = self._get_text(name_field), self._get_text(text_field)
            if not name and not text:
                continue
            if not _PROMPT_NAME.fullmatch(name):
                self.errors[name_field] = (
                    "Give the prompt a name of at most 64 letters, digits, dots, hyphens or underscores, "
                    "such as terse."
                )
            elif name in prompts or name in used_names:
                self.errors[name_field] = f"Another prompt is also named {name!r}. Choose a different name."
            elif len(text) > MAX_PROMPT_LENGTH:
                self.errors[text_field] = (
                    f"The prompt {name!r} has {len(text):,} characters; the limit is {MAX_PROMPT_LENGTH:,} "
                    "on this page. Use `proctor run --prompt FILE`."
                )
            else:
                try:
                    prompts[name] = parse_prompt(name, f"{name}.md", text.encode("utf-8", "surrogatepass"))
                except SuiteError as error:
                    sentences = " ".join(problem.message for problem in error.problems)
                    self.errors[text_field] = f"{name}: {sentences}"
        return tuple(prompts.values())

    def check_has_target(self, suite: Suite | None, targets: Mapping[str, None], *, needed: bool) -> None:
        """Checks that there is a target, and that targets named by the suite may be called."""
        if targets or self._context.defaults.texts("target", "model"):
            return
        try:
            suite_targets = () if suite is None else suite.defaults.targets
            if needed and not suite_targets and not self._context.names.default:
                self.errors.setdefault("target", "Choose at least one target.")
            for name in suite_targets:
                self._check(name)
        except ProctorError as error:
            self.errors.setdefault("target", str(error))

    def parse_number(self, field: str) -> float | None:
        """Returns the number in a field; None if it is empty or the default."""
        text, number_field = self._get_text(field), NUMBER_FIELDS[field]
        if not text:
            return None
        pattern = _INTEGER if number_field.is_integer else _DECIMAL
        value = float(text) if pattern.fullmatch(text) else float("nan")
        if not number_field.accepts(value):
            self.errors[field] = f"{text[:40]!r} is not {number_field.description}."
            return None
        return None if value == default_number(field, self._context.defaults) else value

    def parse_split(self) -> SplitName | None:
        """Returns the split; None if it is the default."""
        text, defaults = self._get_text("split"), self._context.defaults.split
        choice = next((split_name for split_name in SPLITS if split_name == (text or defaults)), None)
        if choice is None:
            self.errors["split"] = f"{text[:40]!r} is not one of {', '.join(SPLITS)}."
        return None if choice == defaults else choice

    def check_split(self, split: SplitName | None, holdout: float | None) -> None:
        """Checks that a part can be chosen: something must be held out."""
        if holdout == 0 and (split or self._context.defaults.split) != "all":
            self.errors["split"] = "The suite has no holdout, so it has no splits. Choose dev and holdout."

    def parse_gate_mode(self, min_pass_rate: float | None) -> GateMode | None:
        """Returns what the gate compares; None for the default.

        Args:
            min_pass_rate: the gate in the form, if it has one.
        """
        text = self._get_text("gate_mode")
        if not text:
            return None
        mode = next((mode for mode in get_args(GateMode) if mode == text), None)
        if mode is None:
            self.errors["gate_mode"] = f"{text[:40]!r} is neither point nor interval."
        elif not self._has_gate(min_pass_rate):
            self.errors["gate_mode"] = _NO_GATE
        return mode

    def parse_stop_when_shown(self, min_pass_rate: float | None, gate_mode: GateMode | None) -> bool:
        """Returns whether the run stops when its gate is shown or ruled out.

        Args:
            min_pass_rate: the gate in the form, if it has one.
            gate_mode: what the gate compares, if the form has it.
        """
        stops = bool(self.parse_yes_or_no("stop_when_shown"))
        if stops and not self._has_gate(min_pass_rate):
            self.errors["stop_when_shown"] = _NO_GATE
        elif stops and gate_mode == "point":
            self.errors["stop_when_shown"] = (
                "Early stop needs the interval. Set the gate to its 95 % interval."
            )
        return stops

    def _has_gate(self, min_pass_rate: float | None) -> bool:
        return (
            min_pass_rate is not None or default_number("min_pass_rate", self._context.defaults) is not None
        )

    def parse_cluster(self) -> str | None:
        """Returns the field that says which cases are related; None leaves it to the default."""
        text = self._get_text("cluster")
        if not text:
            return None
        if len(text) > MAX_CLUSTER_LENGTH or not text.isprintable():
            self.errors["cluster"] = f"Enter one line of at most {MAX_CLUSTER_LENGTH} characters."
            return None
        try:
            return check_cluster_field(text)
        except UsageError as error:
            self.errors["cluster"] = str(error)
            return None

    def parse_yes_or_no(self, field: str) -> bool | None:
        """Returns the value of a field that is yes or no; None if it is empty."""
        text = self._get_text(field)
        if text not in ("", "yes", "no"):
            self.errors[field] = f"{text[:40]!r} is neither yes nor no."
        return {"yes": True, "no": False}.get(text)

    def parse_interleave(self, run_count: int) -> bool | None:
        """Returns whether the runs are made in turns; None if it is the default.

        Args:
            run_count: how many runs the form names; 0 if it leaves targets to the default.
        """
        default = bool(self._context.defaults.value("interleave", bool))
        interleave = self.parse_yes_or_no("interleave")
        if interleave is None or interleave is default:
            return None
        if interleave and run_count == 1:
            self.errors["interleave"] = "Taking turns needs at least two targets. Choose another target too."
        return interleave

    def parse_tags(self) -> tuple[str, ...]:
        """Returns the tags; one value may hold several, separated by commas."""
        return self._parse_tags(
            "tag", [tag for value in self._raw_form.get("tag", ()) for tag in value.split(",")]
        )

    def parse_all_tags(self) -> tuple[str, ...]:
        """Returns the tags that a case must have; commas within one separate alternatives."""
        return self._parse_tags("all_tag", self._raw_form.get("all_tag", ()))

    def parse_params(self) -> dict[str, Any]:
        """Returns the further parameters, of which each line has one."""
        words = [line.strip() for value in self._raw_form.get("param", ()) for line in value.splitlines()]
        try:
            params = parse_parameters(filter(None, words))
            for name in params.keys() - VISITOR_PARAMETERS:
                raise UsageError(f"`{name}` cannot be set on this page. Set it in targets.yaml.")
        except UsageError as error:
            self.errors["param"] = str(error).removeprefix("--param ")
            return {}
        return params

    def _parse_tags(self, field: str, texts: Sequence[str]) -> tuple[str, ...]:
        tags = tuple(dict.fromkeys(filter(None, map(str.strip, texts))))
        if len(tags) > _MAX_NAMES or any(len(tag) > _MAX_TAG_LENGTH or not tag.isprintable() for tag in tags):
            self.errors[field] = f"Enter at most {_MAX_NAMES} tags, each on one line."
            return ()
        return tags
