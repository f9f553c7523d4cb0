"""An agent that reports every field of AgentV's answer format, or the text alone."""

import json
import sys
from pathlib import Path

case, answer = sys.argv[1:]
calls = [
    {"tool": "search", "input": {"query": "capital of France"}, "output": "Paris", "duration_ms": 12.5},
    {"tool": "read"},
]
report = {
    "output": [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "name": "search", "content": "Paris"},
        {"role": "assistant", "content": "Paris is the capital of France."},
    ],
    "token_usage": {"input": 400, "output": 60, "cached": 100},
    "cost_usd": 0.25,
    "duration_ms": 40,
}
plain = {"text": "Paris is the capital of France."}
Path(answer).write_text(json.dumps(plain if case == "plain" else report), encoding="utf-8")
