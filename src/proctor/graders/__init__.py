"""Outputs to marks: one file a family of graders. `GRADERS` is the table of all of them."""

from typing import Any

from proctor.registry import Registry

GRADERS: Registry[type[Any]] = Registry(
    "graders",
    {
        "consistency": "proctor.graders.consistency:Consistency",
        "contains": "proctor.graders.text:Contains",
        "contains_any": "proctor.graders.text:ContainsAny",
        "exact": "proctor.graders.text:Exact",
        "forbidden_words": "proctor.graders.text:ForbiddenWords",
        "is_json": "proctor.graders.structure:IsJson",
        "json_array": "proctor.graders.structure:JsonArray",
        "json_keys": "proctor.graders.structure:JsonKeys",
        "json_schema": "proctor.graders.structure:JsonSchema",
        "length": "proctor.graders.length:Length",
        "llm_judge": "proctor.graders.judge:LlmJudge",
        "number": "proctor.graders.numbers:Number",
        "refusal": "proctor.graders.refusal:Refusal",
        "regex": "proctor.graders.text:Regex",
        "required_words": "proctor.graders.text:RequiredWords",
        "rubric": "proctor.graders.rubric:Rubric",
        "semantic_similarity": "proctor.graders.similarity:SemanticSimilarity",
        "unscored": "proctor.graders.unscored:Unscored",
    },
)
