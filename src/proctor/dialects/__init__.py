"""Text to suites, and back: one file a dialect and way. `DIALECTS` reads, `RENDERERS` writes."""

from proctor.protocols import Dialect, Renders
from proctor.registry import Registry

DIALECTS: Registry[Dialect] = Registry(
    "dialects",
    {
        "agent_skills": "proctor.dialects.agent_skills:DIALECT",
        "agentv": "proctor.dialects.agentv.dialect:DIALECT",
        "ai_tester": "proctor.dialects.ai_tester.dialect:DIALECT",
        "deepeval": "proctor.dialects.deepeval:DIALECT",
        "fieldkit": "proctor.dialects.fieldkit.prompts:DIALECT",
        "fieldkit_qa": "proctor.dialects.fieldkit.questions:DIALECT",
        "inspect": "proctor.dialects.inspect.dialect:DIALECT",
        "meridian": "proctor.dialects.meridian.reader:DIALECT",
        "openai_evals": "proctor.dialects.openai_evals.dialect:DIALECT",
        "pramana": "proctor.dialects.pramana.reader:DIALECT",
        "proctor": "proctor.dialects.proctor.dialect:DIALECT",
        "promptfoo": "proctor.dialects.promptfoo.dialect:DIALECT",
    },
)

RENDERERS: Registry[Renders] = Registry(
    "renderers",
    {
        "agentv": "proctor.dialects.agentv.write.suite:render",
        "ai_tester": "proctor.dialects.ai_tester.writer:render",
        "meridian": "proctor.dialects.meridian.writer:render",
        "pramana": "proctor.dialects.pramana.writer:render",
        "proctor": "proctor.dialects.proctor.writer:render",
    },
)
