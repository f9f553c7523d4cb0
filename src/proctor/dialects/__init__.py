"""Text to suites, and back: one file a dialect and way. `DIALECTS` reads, `RENDERERS` writes."""

from proctor.ports import Dialect, Renders
from proctor.registry import Registry

DIALECTS: Registry[Dialect] = Registry(
    "dialects",
    {
        "agent_skills": "proctor.dialects.agent_skills:DIALECT",
        "agentv": "proctor.dialects.agentv:DIALECT",
        "ai_tester": "proctor.dialects.ai_tester:DIALECT",
        "deepeval": "proctor.dialects.deepeval:DIALECT",
        "fieldkit": "proctor.dialects.fieldkit:DIALECT",
        "fieldkit_qa": "proctor.dialects.fieldkit_qa:DIALECT",
        "inspect": "proctor.dialects.inspect:DIALECT",
        "meridian": "proctor.dialects.meridian:DIALECT",
        "openai_evals": "proctor.dialects.openai_evals:DIALECT",
        "pramana": "proctor.dialects.pramana:DIALECT",
        "proctor": "proctor.dialects.proctor:DIALECT",
        "promptfoo": "proctor.dialects.promptfoo:DIALECT",
    },
)

RENDERERS: Registry[Renders] = Registry(
    "renderers",
    {
        "agentv": "proctor.dialects.agentv_rendering:render",
        "ai_tester": "proctor.dialects.ai_tester_rendering:render",
        "meridian": "proctor.dialects.meridian_rendering:render",
        "pramana": "proctor.dialects.pramana_rendering:render",
        "proctor": "proctor.dialects.proctor_rendering:render",
    },
)
