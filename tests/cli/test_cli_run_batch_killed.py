"""`proctor run --batch` is killed with SIGKILL, and resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from support.batches import KEY, KINDS, BatchHost, serve_batches
from support.cli import Proctor
from support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")]

Start = Callable[..., subprocess.Popen[str]]
ALL_IDS = [f"p{number}-r{repeat}" for number in range(10) for repeat in range(2)]


@pytest.fixture
def host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchHost]:
    monkeypatch.setenv("PROCTOR_API_KEY", KEY)
    monkeypatch.setenv("PROCTOR_BATCH_POLL_S", "0.01")
    with serve_batches() as batch_host:
        yield batch_host
        assert batch_host.problems == []


def resume(proctor: Proctor, host: BatchHost) -> str:
    """Resumes the last run, and checks that each case has an answer and each request was accepted once."""
    result = proctor("run", "--resume=last", "--json")
    assert result.code == 1, result.err
    assert [result.run[name] for name in ("total", "passed", "failed", "errors")] == [20, 10, 10, 0]
    assert host.custom_ids == ALL_IDS
    return str(result.err)


def test_a_run_that_is_killed_while_it_waits_goes_on_with_its_batch(
    proctor: Proctor, start: Start, host: BatchHost, half: str
) -> None:
    host.is_released.clear()
    run = start("run", half, "--target", host.target("openai"), "--batch", "--repeat", 2)
    wait_until(lambda: host.batches and host.batches[0].polls > 1)
    run.kill()
    run.wait()
    host.is_released.set()
    assert "Batch batch_1 was submitted" in resume(proctor, host)
    again = proctor("run", "--resume=last")
    assert "is already finished" in again.err
    assert host.custom_ids == ALL_IDS


def test_a_run_that_is_killed_before_its_batch_is_accepted_submits_it_once(
    proctor: Proctor, start: Start, host: BatchHost, half: str
) -> None:
    is_killed = Event()

    def wait_and_refuse() -> None:
        host.before_accepting = lambda: None
        is_reached.set()
        is_killed.wait(PATIENCE_S)
        raise ConnectionError

    is_reached = Event()
    host.before_accepting = wait_and_refuse
    run = start("run", half, "--target", host.target("google"), "--batch", "--repeat", 2)
    assert is_reached.wait(PATIENCE_S)
    run.kill()
    run.wait()
    is_killed.set()
    resume(proctor, host)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_before_it_learns_the_id_finds_its_batch(
    proctor: Proctor, start: Start, host: BatchHost, half: str, kind: str
) -> None:
    is_reached, is_killed = Event(), Event()

    def wait_and_lose() -> None:
        host.after_accepting = lambda: None
        is_reached.set()
        is_killed.wait(PATIENCE_S)
        raise ConnectionError

    host.after_accepting = wait_and_lose
    run = start("run", half, "--target", host.target(kind), "--batch", "--repeat", 2)
    assert is_reached.wait(PATIENCE_S)
    run.kill()
    run.wait()
    is_killed.set()
    host.polls_until_ended = 3  # Anthropic's list names the run only when the batch has ended
    resume(proctor, host)


def test_ctrl_c_leaves_the_batch_running_and_says_how_to_go_on(
    proctor: Proctor, start: Start, host: BatchHost, half: str
) -> None:
    host.is_released.clear()
    run = start("run", half, "--target", host.target("anthropic"), "--batch", "--repeat", 2)
    wait_until(lambda: host.batches and host.batches[0].polls > 1)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 2
    assert "A batch with 20 requests goes on at the service." in err
    assert "Stopped: 0 of 20 trials are stored. Continue with: proctor run --resume=" in err
    show = " ".join(proctor("runs", "show", "last").out.split())
    assert "Its batches, as last seen: batch_1 (in_progress, 20 requests, submitted " in show
    host.is_released.set()
    resume(proctor, host)
