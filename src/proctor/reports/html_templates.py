"""The Jinja2 environment of reports and pages; every value is escaped.

Templates come only from the package.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from msgspec import to_builtins
from msgspec.structs import asdict

from proctor.reports import formatting
from proctor.reports.document import Block, Rate, format_cell
from proctor.reports.evidence import first_span_index, mark_evidence
from proctor.reports.runs.answer_parts import attachment_text, inline_image
from proctor.reports.runs.serialize import failed_gates_text
from proctor.safe_text import escape_invisible, one_line, truncate
from proctor.verdicts import Counts


def make_environment(*more_loaders: BaseLoader) -> Environment:
    """Returns an environment with the templates and filters of reports.

    An undefined name is an error. No filter turns a value into markup.

    Args:
        more_loaders: further sources of templates, which take precedence.
    """
    loaders = [*more_loaders, PackageLoader("proctor.reports", "templates")]
    templates = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        finalize=_finalize,
    )
    del templates.filters["safe"]
    templates.filters |= {
        "percent": formatting.percent,
        "interval": formatting.interval,
        "unmeasured": formatting.unmeasured,
        "unmeasured_difference": formatting.unmeasured_difference,
        "rate": _to_rate,
        "cost": formatting.cost,
        "ms": formatting.milliseconds,
        "tokens": formatting.token_counts,
        "per_second": formatting.rate,
        "quoted": _quote,
        "attachment_text": attachment_text,
        "inline_image": inline_image,
        "points": formatting.percentage_points,
        "p_value": formatting.p_value,
        "axis_limit": formatting.axis_limit,
        "cell_text": format_cell,
        "one_line": one_line,
        "cut": truncate,
        "number": _number,
        "moment": _moment,
        "iso": _iso,
        "head": _truncate,
        "written": _to_text,
        "pieces": mark_evidence,
        "first_of": first_span_index,
        "gates_of": failed_gates_text,
        "capitalize_first": _capitalize,
        "in_terminal": str,  # the web replaces it where the store has another name
    }
    templates.globals["run_address"] = lambda _run_id: ""  # the web has pages of runs
    return templates


def render_fragment(blocks: Iterable[Block]) -> str:
    """Returns blocks as HTML with its style, for a place inside another page, such as a notebook."""
    templates = make_environment()
    return templates.get_template("fragment.html").render(blocks=list(blocks))


def _finalize(value: Any) -> Any:
    """Escapes invisible characters; `|e` keeps them, for values that a form sends back."""
    return escape_invisible(value) if type(value) is str else value


def _to_rate(counts: Any) -> Rate | Counts:
    """Returns the rate of counts, of a record of them, or of what else has a pass rate."""
    if isinstance(counts, Rate | Counts):
        return counts
    fields = counts if isinstance(counts, Mapping) else asdict(counts)
    return Rate(
        pass_rate=fields["pass_rate"],
        ci95=fields["ci95"],
        cases=fields.get("cases", 0),
        unmeasured=fields.get("errors", 0) + fields.get("unscored", 0),
        bounds=fields.get("bounds"),
    )


def _number(value: Any) -> str:
    """Formats a number with thousands separators; a dash for None."""
    if value is None:
        return formatting.NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _moment(value: datetime | str | None) -> str:
    """Formats a moment as `2026-10-03 14:00`, in UTC; a dash for None."""
    moment = _datetime(value)
    return formatting.NONE if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _iso(value: datetime | str | None) -> str:
    moment = _datetime(value)
    return "" if moment is None else formatting.format_utc(moment)


def _truncate(text: str, limit: int | None = None) -> str:
    return text if limit is None else formatting.truncate_with_count(text, limit)


def _to_text(value: Any) -> str:
    """Returns a text unchanged, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(to_builtins(value), ensure_ascii=False, indent=2)


def _quote(text: str) -> str:
    """Returns a text in quotes, so that its white space is seen."""
    return json.dumps(text, ensure_ascii=False)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _datetime(value: datetime | str | None) -> datetime | None:
    if not value:
        return None
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
