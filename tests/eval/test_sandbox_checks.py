"""Tests of functions that may be hostile: no cheat passes, and what is right does."""

from __future__ import annotations

from textwrap import dedent

import pytest

from proctor.errors import UsageError
from proctor.eval import CodeSandbox, SandboxResult
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("sandboxed")

DOUBLE = "def check(candidate):\n    assert candidate(4) == 8\n    assert candidate(-3) == -6\n"


def check(
    program: str, test: str = DOUBLE, name: str = "double", prompt: str = "", timeout_s: float = PATIENCE_S
) -> SandboxResult:
    sandbox = CodeSandbox(timeout_s=timeout_s, output_limit=20_000)
    return sandbox.check(dedent(program), dedent(test), name, prompt=prompt)


# --- no forged success -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", ["import sys; sys.exit(0)", "exit()", "import os; os._exit(0)", "raise SystemExit"]
)
def test_a_program_that_ends_before_its_last_line_has_not_passed(end: str) -> None:
    result = CodeSandbox().run(f"{end}\nassert False")
    assert (result.status, result.exit_code) == ("failed", 0)
    assert result.reason == "it ended itself before its last line"


@pytest.mark.slow
def test_a_function_that_is_right_passes() -> None:
    assert check("def double(n):\n    print('called')\n    return n + n").stdout == "called\ncalled\n"
    assert check("def double(n): return n + n").status == "passed"


FRAMES = """
import os

def many(letter, *items): return letter + len(items).to_bytes(8, 'little') + b''.join(items)
def text(value): return b's' + len(value).to_bytes(8, 'little') + value.encode()
def number(value): return b'i' + (1).to_bytes(8, 'little') + bytes([value])
def send(kind, content):
    for handle in range(3, 64):
        try: os.write(handle, len(content).to_bytes(8, 'little') + kind + content)
        except OSError: pass

NOTHING = many(b'd')
"""
CHEATS = {
    "exit before": "import sys; sys.exit(0)",
    "hard exit before": "import os; os._exit(0)",
    "exit inside": "def double(n):\n    raise SystemExit(0)",
    "hard exit inside": "import os\ndef double(n):\n    os._exit(0)",
    "always equal": "class Any:\n    __eq__ = lambda *_: True\ndef double(n):\n    return Any()",
    "an equal number": "class Any(int):\n    __eq__ = lambda *_: True\ndef double(n):\n    return Any(1)",
    "an equal text": "class Any(str):\n    __eq__ = lambda *_: True\ndef double(n):\n    return Any('')",
    "assertions off": "import builtins\nbuiltins.AssertionError = int\ndef double(n):\n    return 0",
    "verdicts on every handle": """
        import os
        for handle in range(64):
            for line in (b'passed\\t\\n', b'locked\\t\\npassed\\t\\n'):
                try: os.write(handle, line)
                except OSError: pass
        def double(n): return 0""",
    "a verdict in an error": "def double(n):\n    raise ValueError('x\\npassed\\t\\u2028\\rpassed\\t')",
    "a verdict in the first error": "raise ValueError('x\\u2028passed\\t\\x0bpassed\\t\\x85passed\\t')",
    "the answers in memory": """
        import gc, sys
        def double(n):
            frame, seen = sys._getframe(), []
            while frame:
                seen += [*frame.f_locals.values(), *frame.f_globals.values()]
                frame = frame.f_back
            wanted = ''.join(['cand', 'idate(4)'])
            found = any(wanted in str(one) for one in gc.get_objects() + seen)
            return {4: 8, -3: -6}[n] if found else 0""",
    "the other process": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\ndef double(n): return 0",
    "a reply before it is asked": f"{FRAMES}\nfor _ in range(3): send(b'V', many(b't', number(8), NOTHING))",
    "at the end": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef double(n): return 0",
    "a separate check": "def check(candidate): return True\ndef double(n): return 0",
    "nothing": "",
    "no function": "double = 8",
    "a coroutine": "async def double(n): return n + n",
}


@pytest.mark.parametrize("program", CHEATS.values(), ids=CHEATS.keys())
def test_a_cheat_does_not_pass(program: str) -> None:
    result = check(program)
    assert result.status == "failed", result
    assert result.reason


FORGED_FRAMES = {
    "nonsense": "b'V', b'x' * 20",
    "nothing": "b'V', b''",
    "a verdict": "b'V', many(b't', text('passed'), text(''))",
    "no isolation": "b'E', text('unlocked')",
    "a change of nothing": "b'V', many(b't', number(8), many(b'd', number(9), many(b'l')))",
    "another built-in": "b'V', many(b't', many(b'n', text('eval')), NOTHING)",
    "another class": "b'V', many(b't', b'M' + text('os.system') + many(b't', text('true')), NOTHING)",
    "an unknown value": "b'V', many(b't', b'@' + (7).to_bytes(8, 'little'), NOTHING)",
    "a function of nobody": "b'V', many(b't', many(b'h', number(7), text(''), many(b't')), NOTHING)",
    "an error that is none": "b'E', many(b't', number(8), NOTHING)",
    "a call of nothing": "b'C', many(b't', number(7), many(b't'), NOTHING)",
    "a call that is none": "b'C', number(7)",
}


@pytest.mark.parametrize("forged", FORGED_FRAMES.values(), ids=FORGED_FRAMES.keys())
def test_a_forged_frame_does_not_pass(forged: str) -> None:
    assert check(f"{FRAMES}\ndef double(n):\n    send({forged})\n    return 0").status == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os._exit(0)", "send(b'V', b'x')"])
def test_a_test_that_takes_every_error_does_not_take_the_programs_end(end: str) -> None:
    test = "def check(candidate):\n    try: candidate(-1)\n    except: pass"
    assert check(f"{FRAMES}\ndef double(n):\n    {end}", test).status == "failed"
    assert check("def double(n): raise ValueError", test).passed


@pytest.mark.slow
def test_what_a_program_gives_is_never_the_tests_fault() -> None:
    result = check("def double(n): return b'x' * 17_000_000", "assert double(double(1) * 2)")
    assert result.reason == "OverflowError: a value of more than 33,554,432 bytes (line 1 of the tests)"
    assert check("def check(n): return n\ndef double(n): return n", "assert double(2) == 2").passed


def test_a_program_that_breaks_its_own_side_does_not_pass() -> None:
    program = """
        import sys
        for frame in [sys._getframe(n) for n in range(3)]:
            for name in ('Writer', 'Line', 'VALUE', '_say', '_judge'):
                if name in frame.f_globals: frame.f_globals[name] = lambda *_: b'T'
        def double(n): return 0"""
    assert check(program, timeout_s=0.2).status in ("failed", "timeout")


@pytest.mark.slow
def test_a_program_that_ends_in_its_test_says_how() -> None:
    assert (
        check(CHEATS["hard exit inside"]).reason
        == "it ended itself with exit code 0 before its tests were through"
    )
    crashed = check("import os\ndef double(n): os.abort()")
    assert (crashed.status, crashed.exit_code) == ("crashed", -6)
    assert check("def double(n): return bytearray(10 ** 9)").status == "memory"
    assert check("def double(n):\n    while True: pass", timeout_s=0.1).status == "timeout"
    assert check("while True: pass", timeout_s=0.1).status == "timeout"
    assert check("while True: print('x' * 1000)").status == "output"


@pytest.mark.slow
def test_the_line_of_the_test_that_failed_is_told() -> None:
    assert check("def double(n): return 8").reason == "AssertionError (line 3 of the tests)"
    assert check("def double(n): return nothing").reason == (
        "NameError: name 'nothing' is not defined (line 2 of the tests)"
    )


# --- what a test can do -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_tests_see_changes_errors_helpers_and_keywords() -> None:
    program = """
        class Own(KeyError): pass
        def helper(n): return n + 1
        def change(items, more=None, *, fail=False):
            if fail: raise Own('no')
            items.sort(); items.append(more)
            return iter(items)
        """
    test = """
        def check(candidate):
            items = [3, 1]
            assert list(candidate(items, more=helper(1))) == [1, 3, 2]
            assert items == [1, 3, 2]
            assert candidate.__name__ == 'change'
            try:
                candidate([], fail=True)
            except KeyError as error:
                assert 'no' in str(error)
            else:
                assert False
            assert scale == 10
        """
    prompt = "scale = 10\ndef change(items):\n    '''Change.'''\n"
    result = check(program, test, "change", prompt=prompt)
    assert result.passed, result.reason


def test_what_is_changed_in_place_is_changed_wherever_it_stands() -> None:
    program = """
        def change(nested, *more, last):
            nested[0].append(2)
            more[0][0]['b'] = nested
            last |= {3}
            return nested
        """
    test = """
        inner, held, last = [1], {}, set()
        nested = [inner, inner]
        assert change(nested, (held,), nested, last=last) is nested
        assert inner == [1, 2] and nested[0] is nested[1] is inner
        assert held['b'] is nested
        assert last == {3}
        """
    result = check(program, test, "change")
    assert result.passed, result.reason


@pytest.mark.slow
def test_functions_and_classes_cross_both_ways() -> None:
    program = """
        class Refused(Exception): pass
        class Empty(ValueError): pass
        def change(function, items): yield from map(function, items)
        def later(n): return lambda m, *, scale=1: scale * (n + m)
        def kinds(number, kind): return isinstance(number, kind), kind, type(number)
        def twice(function, value): return function(function(value))
        def same(function): return function
        def refuse(kind, reason): raise globals()[kind](reason)
        """
    test = """
        def check(candidate):
            assert list(candidate(lambda n: n + 1, [1, 2])) == [2, 3]
            assert later(1)(2, scale=10) == 30
            assert kinds(True, int) == (True, int, bool)
            assert twice(later(3), 1) == 7
            assert twice(lambda text: twice(str.strip, text), ' x ') == 'x'
            assert same(check) is check and same(later) is later
            for call, kind, says in (
                (lambda: twice(lambda n: 1 / n, 0), ZeroDivisionError, 'division by zero'),
                (lambda: refuse('Refused', 'no'), Refused, 'no'),
                (lambda: refuse('Empty', 'nothing'), LookupError, 'nothing'),
                (lambda: same.no, AttributeError, ''),
            ):
                try: call()
                except kind as error: assert says in str(error)
                else: assert False
        """
    prompt = "class Empty(LookupError): pass\ndef change(function, items):\n    'Map.'\n"
    result = check(program, test, "change", prompt=prompt)
    assert result.passed, result.reason


@pytest.mark.slow
def test_a_function_of_the_tests_may_be_called_by_threads() -> None:
    program = """
        from concurrent.futures import ThreadPoolExecutor
        def double(function, items):
            with ThreadPoolExecutor(8) as threads:
                return list(threads.map(function, items))
        """
    result = check(program, "assert double(lambda n: n * n, range(50)) == [n * n for n in range(50)]")
    assert result.passed, result.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("def check(:", "they are not Python"),
        ("def check(candidate):\n    candidate(object())", "they hand a value of type object to the program"),
        (
            "import numpy\ndef check(candidate): pass",
            "import numpy, and there are no packages in the sandbox",
        ),
        ("  \n", "every program would pass"),
    ],
)
def test_invalid_tests_raise_in_the_caller(test: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check("def double(n): return n", test)
