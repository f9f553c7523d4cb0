"""What every store does with people's comments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from proctor.model import Comment
from proctor.protocols import Store

ANA = Comment(run="r1", case_id="plain", by="ana", text="Ask legal first.")


def test_a_comment_comes_back_as_it_was(open_another: Callable[[], Store]) -> None:
    comment = replace(ANA, case_id="../../etc/passwd\n\x00🦉", repeat=3, text="ä\n<script>", by="Zoë ' \"")
    stored_comment = open_another().add_comment(comment)
    assert stored_comment.comment == comment
    assert open_another().comments("r1") == [stored_comment]


def test_a_person_can_write_several_comments_on_one_answer(store: Store) -> None:
    comments = [store.add_comment(replace(ANA, text=text)) for text in ("one", "two", "two")]
    assert store.comments("r1") == comments
    assert len({comment.number for comment in comments}) == 3


def test_comments_are_those_of_a_run_or_of_one_of_its_cases(store: Store) -> None:
    first = store.add_comment(ANA)
    other = store.add_comment(replace(ANA, case_id="rich", repeat=2))
    store.add_comment(replace(ANA, run="r2"))
    assert store.comments("r1") == [first, other]
    assert store.comments("r1", "rich") == [other]
    assert store.comments("r") == []


def test_a_removed_comment_is_gone_and_its_number_is_not_used_again(store: Store) -> None:
    stored_comment = store.add_comment(ANA)
    assert store.remove_comment(stored_comment.number)
    assert not store.remove_comment(stored_comment.number)
    assert store.comments("r1") == []
    assert store.add_comment(ANA).number > stored_comment.number


def test_comments_outlive_their_run_and_are_no_labels(store: Store, start_run: Callable[..., Any]) -> None:
    run = start_run("r1")
    stored_comment = store.add_comment(ANA)
    store.delete_run(run.id)
    assert store.comments("r1") == [stored_comment]
    assert store.labels() == []
