# Common tasks, each with one word. `just` alone lists them.

bin := if path_exists(".venv/bin") == "true" { ".venv/bin/" } else { "" }

# The recipes below.
default:
    @{{ just_executable() }} --list --unsorted

# Everything that CI runs, in the current environment, the quick checks first.
check: format-check lint layers types suites site words test-all bench-smoke

# What CI runs as it runs it: in a fresh environment, which takes a few minutes.
ci:
    .ci/run

# The quick tests, in parallel; `just test tests/graders -k regex` runs some of them.
test *ARGS:
    {{ bin }}pytest {{ ARGS }}

# All tests, as in CI: browsers, programs and long searches for a counterexample too.
test-all *ARGS:
    CI=true {{ bin }}pytest -m "" {{ ARGS }}

# The same on another day and in another time zone.
test-later *ARGS:
    TZ=Pacific/Kiritimati {{ bin }}python tests/support/clock.py +400d {{ bin }}pytest -m "" {{ ARGS }}

# Build the wheel and try it in a bare environment.
wheel:
    {{ bin }}python tools/try_wheel.py

# The tests of the documentation only.
docs:
    {{ bin }}pytest -m "" tests/test_docs.py

# Replace outputs on pages that are out of date.
docs-rewrite:
    -PROCTOR_REWRITE_DOCS=1 {{ bin }}pytest -m "" tests/test_docs.py -k page_shows
    git --no-pager diff -- '*.md'

# Write the expected suites of the example files of dialects again.
golden:
    -PROCTOR_REWRITE_GOLDEN=1 {{ bin }}pytest tests/dialects/test_goldens.py
    git --no-pager diff --stat -- tests/dialects

# Build the site of the documentation, build/site/index.html, and check its links.
site:
    NO_MKDOCS_2_WARNING=1 {{ bin }}mkdocs build --strict

# Show the site while you write.
site-serve:
    NO_MKDOCS_2_WARNING=1 {{ bin }}mkdocs serve

# Phrases that users should not have to read.
words:
    {{ bin }}python tools/rejected_phrases.py --limit 10

# Style and mistakes.
lint:
    {{ bin }}ruff check .

# Format all Python files.
format:
    {{ bin }}ruff check --fix .
    {{ bin }}ruff format .

# Is everything formatted?
format-check:
    {{ bin }}ruff format --check .

# Types, strictly.
types:
    {{ bin }}mypy

# Which layer may import which.
layers:
    {{ bin }}lint-imports

# Are the built-in suites what their manifest says?
suites:
    {{ bin }}python tools/build_suites.py --check

# The benchmark; see benchmarks/README.md.
bench *ARGS:
    {{ bin }}python benchmarks/overhead.py {{ ARGS }}

# Does the benchmark run at all?
bench-smoke:
    {{ bin }}python benchmarks/overhead.py --smoke

# Everything at once, with kills, for hours: `just soak --hours 1`; see docs/explanation/soak.md.
soak *ARGS:
    {{ bin }}python tools/soak.py {{ ARGS }}

# Draw the README's picture of a first run anew.
picture:
    -PROCTOR_STORE=build/picture.db {{ bin }}proctor run cheap --target local
    PROCTOR_STORE=build/picture.db {{ bin }}python tools/picture.py

# Draw which module imports which, as build/imports.dot, and as SVG where Graphviz is there.
imports:
    mkdir -p build
    {{ bin }}import-linter drawgraph proctor --show-module-counts > build/imports.dot
    if command -v dot > /dev/null; then dot -Tsvg build/imports.dot -o build/imports.svg; fi
