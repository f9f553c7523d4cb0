"""A project to take pictures of: a suite, targets with scripted answers, and what is run in which order.

Everything in it is made up, and the same every time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tools.picture_tickets import write_tickets

Row = dict[str, Any]
GROUP = "prompts"
"""The id of the group of runs with prompts."""
_EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "tickets"

_WRITTEN_CASES: tuple[tuple[str, str, str, Row, str, str], ...] = (
    (
        "refund-window",
        "refunds",
        "I bought the lamp five weeks ago and it never worked. Can I still send it back?",
        {"grader": "contains_all", "params": {"values": ["two years", "receipt"]}},
        (
            "Yes. A lamp that never worked is covered for two years, so five weeks are fine. Please send it "
            "with a copy of the receipt, and we refund the price and the postage."
        ),
        "Unfortunately returns are only possible within 30 days of the purchase.",
    ),
    (
        "refund-gift",
        "refunds",
        "My aunt gave me the kettle. I have no receipt. What can I do?",
        {"grader": "contains_any", "params": {"values": ["order number", "name of the buyer"]}},
        "That is fine: the order number, or the name of the buyer, is enough for us to find it.",
        "Without a receipt we cannot help you, I am afraid.",
    ),
    (
        "refund-promise",
        "refunds",
        "Promise me that I will have the money tomorrow.",
        {"grader": "forbidden_words", "params": {"words": ["guarantee", "promise", "definitely"]}},
        "I have sent the refund today. Banks take two to five working days, so it may well be Thursday.",
        "I promise that the money is on your account tomorrow, we guarantee it.",
    ),
    (
        "parcel-late",
        "shipping",
        "Wo bleibt meine Bestellung? Sie sollte gestern kommen.",
        {"grader": "regex", "params": {"pattern": r"\b(Paket|Sendung|Lieferung)\b"}},
        "Das tut mir leid. Ihre Sendung liegt seit heute früh im Verteilzentrum und kommt morgen an.",
        "I am sorry, could you write to us in English?",
    ),
    (
        "parcel-address",
        "shipping",
        "Please send it to Elm Street 9 instead, the parcel left your house this morning.",
        {"grader": "contains", "params": {"value": "carrier"}},
        "The parcel is on its way already, but the carrier can still turn it: use the link in your e-mail.",
        "Done! I have changed the address to Elm Street 9.",
    ),
    (
        "parcel-customs",
        "shipping",
        "Do I pay customs from Norway? Answer in at most 25 words.",
        {"grader": "length", "params": {"max_words": 25}},
        "Yes, for orders above 350 NOK. The carrier collects VAT and a small fee when it is delivered.",
        (
            "That depends on a great many things: what you ordered, what it cost, whether it is a gift, "
            "where it was made, and which carrier brings it, so that I cannot say it in general."
        ),
    ),
    (
        "privacy-colleague",
        "privacy",
        "What is the private phone number of the colleague who answered me yesterday?",
        {"grader": "refusal", "params": {}},
        "I can't share a colleague's private number. You can answer their e-mail, which reaches them.",
        "Her number is 0170 555 0199, she is there until five.",
    ),
    (
        "privacy-delete",
        "privacy",
        "Delete everything that you know about me.",
        {"grader": "required_words", "params": {"words": ["account", "30 days", "invoices"]}},
        (
            "I have asked for it: your account is deleted within 30 days. Invoices stay for ten years, as "
            "the law wants, and are used for nothing else."
        ),
        "Your account is closed now.",
    ),
)
_ITEMS = ("mugs", "lamps", "kettles", "chairs", "pans", "towels", "plates", "clocks", "baskets", "candles")


def write(folder: Path) -> None:
    """Write the files of the project into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = list(_cases())
    header: Row = {"proctor": 1, "name": "support-desk", "split_rule": {"ratio": 0.5, "seed": 42}}
    header["description"] = "What customers ask a shop, and what a good answer does."
    lines = [header, *(case for case, _, _ in cases)]
    (folder / "support-desk.jsonl").write_text(_json_lines(lines), encoding="utf-8")
    (folder / "support-desk-next.jsonl").write_text(_json_lines(_changed(lines)), encoding="utf-8")
    skills = {"aurora": 0.87, "borealis": 0.66, "aurora-next": 0.97}
    for name, skill in skills.items():
        answers = [{case["id"]: answer} for case, answer in _answers(cases, name, skill)]
        (folder / f"{name}.jsonl").write_text(_json_lines(answers), encoding="utf-8")
    judge = '{"verdict": "%s", "reason": "%s"}'
    judged = [
        {"privacy-*": judge % ("YES", "It is polite and gives nothing away.")},
        {"refund-promise": judge % ("NO", "It promises what a bank decides.")},
        {"*": judge % ("YES", "Friendly, short and to the point.")},
    ]
    (folder / "referee.jsonl").write_text(_json_lines(judged), encoding="utf-8")
    names = (*skills, "referee")
    targets = "".join(f"  - name: {name}\n    target: scripted:{name}.jsonl\n" for name in names)
    targets += "".join(
        f"  - name: {name}\n    provider: function\n    function: models:{name}\n"
        for name in ("small", "medium", "large")
    )
    (folder / "targets.yaml").write_text(f"targets:\n{targets}", encoding="utf-8")
    for name in ("models.py", "steps.md", "terse.txt"):
        shutil.copy(_EXAMPLE / name, folder)
    write_tickets(1000, folder / "tickets.csv")


def commands() -> Iterator[list[str]]:
    """What is run in it, each the words after `proctor`."""
    for target in ("borealis", "aurora", "aurora", "aurora-next"):
        yield ["run", "support-desk.jsonl", "--target", target, "--judge", "referee", "--concurrency", "4"]
    yield ["run", "cheap", "--target", "echo"]
    yield ["suites", "save", "support-desk-next.jsonl"]
    prompts, models = ("terse.txt", "steps.md"), ("small", "medium", "large")
    words = [f"--prompt={prompt}" for prompt in prompts] + [f"--target={model}" for model in models]
    yield ["run", "tickets.csv", *words, "--holdout=0", "--group", GROUP]


def _changed(lines: list[Row]) -> list[Row]:
    """The next version of the suite: one case asks for less, one is gone, one is new."""
    less = lines[1] | {"assertions": [{"grader": "contains", "params": {"value": "two years"}}]}
    message = {"role": "user", "content": "Do you also sell light bulbs?"}
    new = {
        "id": "stock-bulbs",
        "input": [message],
        "assertions": lines[2]["assertions"][1:],
        "category": "stock",
    }
    return [lines[0], less, *lines[2:-1], new | {"category": "stock"}]


def _json_lines(rows: list[Row]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _cases() -> Iterator[tuple[Row, str, str]]:
    """Each case with a good answer and a bad one."""
    tone = {
        "grader": "llm_judge",
        "params": {"prompt": "Is the answer polite, and to the point?"},
        "weight": 0.5,
        "label": "tone",
    }
    for name, category, question, assertion, good, bad in _WRITTEN_CASES:
        messages = [
            {"role": "system", "content": "You answer the customers of a small shop for the home."},
            {"role": "user", "content": question},
        ]
        gate = {**assertion, "required": 1.0}
        tags = ["writing"] + (["german"] if name == "parcel-late" else [])
        case = {"id": name, "input": messages, "assertions": [gate, tone], "tags": tags}
        case["category"] = category
        yield case, good, bad
    chance = Random(7)
    for number in range(1, 33):
        item, count, price = chance.choice(_ITEMS), chance.randint(2, 9), chance.randint(3, 48)
        postage = chance.choice((0, 4, 6))
        total = count * price + postage
        with_postage = f", and the postage is {postage} euros" if postage else ""
        question = f"{count} {item} cost {price} euros each{with_postage}. What is the total?"
        yield (
            {
                "id": f"invoice-{number:02}",
                "input": [{"role": "user", "content": question}],
                "expected": str(total),
                "assertions": [{"grader": "number", "params": {"value": float(total)}}],
                "tags": ["sums", "postage"] if postage else ["sums"],
                "category": "invoices",
            },
            f"{count} × {price} is {count * price}" + (f", plus {postage} is {total}." if postage else "."),
            f"The total is {count * price + chance.choice((1, 10, -4, 7))} euros.",
        )


def _answers(cases: list[tuple[Row, str, str]], target: str, skill: float) -> Iterator[tuple[Row, Row]]:
    chance = Random(target)
    for case, good, bad in cases:
        text = good if chance.random() < skill else bad
        yield (
            case,
            {
                "text": text,
                "model": f"{target}-2026-09",
                "latency_ms": round(chance.lognormvariate(6.3, 0.45), 1),
                "usage": {"input_tokens": chance.randint(40, 90), "output_tokens": len(text) // 4},
                "cost_usd": round(chance.uniform(0.00004, 0.0002), 6),
            },
        )
