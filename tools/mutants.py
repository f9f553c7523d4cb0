"""Breaks the code in 80 small ways, one after another, and tells which of them the tests notice.

Usage: python tools/mutants.py [--tree FOLDER] [WORD...]; with words, only mutants whose file or text has one.
All of them take about a minute. The exit code is 1 if one survives.

A mutant replaces one text of one file in a copy of the tree, and runs the tests that should notice with the
markers of a development run. It is an error if the text is not there, or more than once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDERS = ("src", "tests", "docs", "examples", "tools")

GRADING = ("tests/test_grading.py",)
VERDICTS = ("tests/test_verdicts.py", "tests/test_verdicts_repeats.py")
PLAN = ("tests/test_plan.py",)
STATS = ("tests/stats",)
PROOF = ("tests/proof",)
BUNDLES = ("tests/proof", "tests/services/bundles")
MERIDIAN = ("tests/dialects/test_meridian.py", "tests/dialects/test_goldens.py")


@dataclass(frozen=True)
class Mutant:
    """A fault in one file of `src/proctor`."""

    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        """Returns the fault in one line."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}: {old} → {new or 'nothing'}"


def _mutants(tests: tuple[str, ...], path: str, *faults: tuple[str, str]) -> Iterator[Mutant]:
    return (Mutant(path, old, new, tests) for old, new in faults)


MUTANTS = (
    *_mutants(
        GRADING,
        "grading.py",
        ("not 0 <= value <= 1:", "not 0 <= value < 1:"),
        ("reaches(value, assertion.pass_at) and not below_gate", "reaches(value, assertion.pass_at)"),
        ("1.0 - (0.0 if below_gate else value)", "1.0 - value"),
        ("max(assertion.required or 0.0, gate)", "min(assertion.required or 0.0, gate)"),
        ("passed=not entry.passed", "passed=entry.passed"),
        ("if kind.needs or kind.is_async:\n            manner", "if kind.needs:\n            manner"),
        ("if missing:", "if missing > 1:"),
        ("name=assertion.label or assertion.grader", "name=assertion.grader"),
        ("value=value if outcome is not Verdict.UNSCORED else None", "value=value"),
        ("judgments=result.judgments,", ""),
        ("size += len(value)", "size += 1"),
    ),
    *_mutants(
        VERDICTS,
        "verdicts.py",
        ("return not reaches(score.value, score.required)", "return score.value <= score.required"),
        ("if score.weight <= 0 and score.required is None:", "if score.weight < 0:"),
        ("if not counting or unscored:", "if unscored:"),
        ("self.cases * counts.total // max(1, self.total)", "self.cases"),
        ("max(1, min(self.cases, self.total))", "max(1, self.total)"),
        ("not_measured > settings.allow_errors", "not_measured >= settings.allow_errors"),
        (">= settings.min_pass_rate - 1e-12", "> settings.min_pass_rate"),
        ("max(0.0, interval[0])", "max(0.0, interval[1])"),
        ("0.0 if failed_gates(trial) else score", "score"),
        ("self.cached += 1\n            return", "self.cached += 1"),
        ("trial.started_at < run.started_at", "trial.started_at > run.started_at"),
        (
            "    ExitCode.FAILED,\n    ExitCode.NOT_MEASURED,\n",
            "    ExitCode.NOT_MEASURED,\n    ExitCode.FAILED,\n",
        ),
        ("case.pass_rule or rule", "rule"),
        ("if len(passes) > 1:", "if len(passes) >= 1:"),
        ('frozenset({"budget", "not-asked"})', 'frozenset({"budget"})'),
    ),
    *_mutants(
        PLAN,
        "plan.py",
        ("max(run_repeats or 1, case.repeats or 1)", "min(run_repeats or 1, case.repeats or 1)"),
        ("if selected_count == self._selection.limit:", "if selected_count + 1 == self._selection.limit:"),
        ("        return slot.first\n", "        return True\n"),
        ("if repeat < repeats and prior_trial.is_reusable", "if prior_trial.is_reusable"),
        ("is not None and stored_case.case.workspace is None", "is not None"),
        ("not any(map(has, selection.tags))", "not all(map(has, selection.tags))"),
        ("trial.source_run or self._source_run", "self._source_run"),
        ("trial_count += repeats", "trial_count += 1"),
        ('glob.replace("[", "[[]")', "glob"),
    ),
    *_mutants(
        STATS,
        "stats/proportions.py",
        ("share + z * z / (2 * total)", "share + z * z / total"),
        ("value >= bar - 1e-9", "value >= bar"),
    ),
    *_mutants(
        STATS,
        "stats/paired.py",
        ("min(1.0, 2 * tail / (1 << n_differing))", "2 * tail / (1 << n_differing)"),
        ("(n_far + 1) / (draws + 1)", "n_far / draws"),
        ("(both + first + second + neither) / 2)", "0)"),
    ),
    *_mutants(
        STATS,
        "stats/multiple_testing.py",
        ("(count - rank) * p_values", "(count - rank - 1) * p_values"),
        ("enumerate(order, 1)", "enumerate(order, 2)"),
    ),
    *_mutants(
        STATS,
        "stats/means.py",
        ("share * (len(ordered) - 1)", "share * len(ordered)"),
        ("for value in values) / (count - 1))", "for value in values) / count)"),
        ("count / (count - 1) * squares", "squares"),
        ("if freedom > 1000:", "if freedom > 10:"),
    ),
    *_mutants(STATS, "stats/pass_at_k.py", ("if n - c < k:", "if n - c <= k:")),
    *_mutants(
        STATS,
        "stats/agreement.py",
        ("agreeing / count - chance) / (1 - chance)", "agreeing / count - chance)"),
        ("if len(row) > 1]", "if row]"),
    ),
    *_mutants(STATS, "stats/flake_rate.py", ("if len(case) > 1]", "if case]")),
    *_mutants(STATS, "stats/resampling.py", ("(middle - mean) ** 3", "(mean - middle) ** 3")),
    *_mutants(
        PROOF,
        "proof/merkle.py",
        ('sha256(b"\\x00" + line)', "sha256(line)"),
        ("None if steps or index else digest", "None if steps else digest"),
    ),
    *_mutants(
        PROOF,
        "proof/dsse.py",
        ("if b64encode(decoded).decode() != text:", "if not decoded and text:"),
        ('if data["payloadType"] != PAYLOAD_TYPE:', 'if not data["payloadType"]:'),
        (
            'set(data) != {"keyid", "sig", "publicKey"}',
            'not {"keyid", "sig", "publicKey"} <= set(data)',
        ),
        ("len(kind), kind, len(payload), payload", "len(payload), kind, len(kind), payload"),
    ),
    *_mutants(PROOF, "proof/canonical.py", ("_EXACT_LIMIT = 2**53", "_EXACT_LIMIT = 2**54")),
    *_mutants(
        PROOF,
        "proof/inclusion_proofs.py",
        ("!= (case.index, case.case.id, case.sent)", "!= (case.index, case.case.id, trial.trial.sent)"),
    ),
    *_mutants(
        PROOF,
        "proof/replay_comparison.py",
        ("if self.not_measured or self.identical.share is None:", "if self.identical.share is None:"),
    ),
    *_mutants(
        BUNDLES,
        "proof/check_records.py",
        ("run.started_at <= trial.started_at <= end", "run.started_at <= trial.started_at"),
        ('    require_equal(place, "the split", trial.split, split)\n', ""),
        ("if salt in self._salts:", "if not salt:"),
    ),
    *_mutants(
        BUNDLES,
        "proof/check_statement.py",
        (
            '    require_equal(ENVELOPE, "the target\'s digest", target.digest, target_digest(run.target))\n',
            "",
        ),
        (" or sum(parts) > hidden_trials:", ":"),
        ('    _require_same_names("failedTests", statement.failed_tests, failed)\n', ""),
    ),
    *_mutants(BUNDLES, "proof/statement.py", ("        tags=(),\n", "")),
    *_mutants(
        MERIDIAN,
        "dialects/meridian/expected.py",
        ('yield "contains", {"value": value, "ignore_case": True}', 'yield "contains", {"value": value}'),
        ("value is not None and value < 0:", "value is not None and value <= 0:"),
        ('{"min_sentences": count, "max_sentences": count}', '{"min_sentences": count}'),
        (" and pattern != value:", ":"),
        (' and "_" not in text', ""),
        ("if not words or not all(word.strip() for word in valid_words):", "if not words:"),
        ("if schema is None and keys is None:", "if schema is None:"),
    ),
    *_mutants(
        MERIDIAN,
        "dialects/meridian/reader.py",
        ('for name in ("id", "scorer"):', "for name in cells:"),
        ("(case.repeats or 1) > 1", "(case.repeats or 1) >= 1"),
        ('fields.integer("num_runs", least=1)', 'fields.integer("num_runs", least=0)'),
        ("weight is not None and weight < 0:", "weight is not None and weight <= 0:"),
        ("if value != other:", "if value == other:"),
        ("for tag in value if isinstance(tag, str) and tag.strip())", "for tag in value)"),
    ),
)


def main() -> int:
    """Prints each mutant's end, and the number that was killed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    options.add_argument("words", nargs="*")
    arguments = options.parse_args()
    selected = [
        mutant for mutant in MUTANTS if not arguments.words or any(w in str(mutant) for w in arguments.words)
    ]
    killed = 0
    with TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for name in FOLDERS:
            shutil.copytree(arguments.tree / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in arguments.tree.iterdir():
            if path.is_file():
                shutil.copy(path, copy)
        for mutant in selected:
            is_killed = _is_killed(mutant, copy)
            killed += is_killed
            print("killed  " if is_killed else "SURVIVED", mutant, flush=True)
    print(f"{killed} of {len(selected)} mutants were killed.")
    return killed < len(selected)


def _is_killed(mutant: Mutant, tree: Path) -> bool:
    path = tree / "src" / "proctor" / mutant.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        sys.exit(f"{mutant.path} has {mutant.old!r} {text.count(mutant.old)} times, not once.")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *mutant.tests],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
    finally:
        path.write_text(text, encoding="utf-8")
    if code > 2:  # 1: a test failed; 2: a test file could not be imported
        sys.exit(f"pytest could not run {' '.join(mutant.tests)}.")
    return code != 0


if __name__ == "__main__":
    sys.exit(main())
