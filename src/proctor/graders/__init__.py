"""Outputs to marks: one file a family of graders. `GRADERS` is the table of all of them."""

from typing import Any

from proctor.registry import Registry

GRADERS: Registry[type[Any]] = Registry(
    "graders",
    {
        "choice": "proctor.graders.choice:Choice",
        "composite": "proctor.graders.composite:Composite",
        "consistency": "proctor.graders.consistency:Consistency",
        "contains": "proctor.graders.text:Contains",
        "contains_all": "proctor.graders.text:ContainsAll",
        "contains_any": "proctor.graders.text:ContainsAny",
        "contains_json": "proctor.graders.embedded:ContainsJson",
        "cost": "proctor.graders.metrics:Cost",
        "ends_with": "proctor.graders.text:EndsWith",
        "exact": "proctor.graders.text:Exact",
        "execution_metrics": "proctor.graders.metrics:ExecutionMetrics",
        "field_accuracy": "proctor.graders.fields:FieldAccuracy",
        "forbidden_words": "proctor.graders.text:ForbiddenWords",
        "fuzzy_match": "proctor.graders.fuzzy:FuzzyMatch",
        "hedges": "proctor.graders.hedges:Hedges",
        "instructions": "proctor.graders.instructions:Instructions",
        "is_json": "proctor.graders.structure:IsJson",
        "json_array": "proctor.graders.structure:JsonArray",
        "json_keys": "proctor.graders.structure:JsonKeys",
        "json_schema": "proctor.graders.structure:JsonSchema",
        "latency": "proctor.graders.metrics:Latency",
        "length": "proctor.graders.length:Length",
        "llm_grader": "proctor.graders.llm_grader:LlmGrader",
        "llm_judge": "proctor.graders.judge:LlmJudge",
        "number": "proctor.graders.numbers:Number",
        "program": "proctor.graders.program:Program",
        "refusal": "proctor.graders.refusal:Refusal",
        "regex": "proctor.graders.text:Regex",
        "required_words": "proctor.graders.text:RequiredWords",
        "rubric": "proctor.graders.rubric:Rubric",
        "rubrics": "proctor.graders.checklist:Rubrics",
        "semantic_similarity": "proctor.graders.similarity:SemanticSimilarity",
        "skill_trigger": "proctor.graders.trajectory:SkillTrigger",
        "starts_with": "proctor.graders.text:StartsWith",
        "token_usage": "proctor.graders.metrics:TokenUsage",
        "tool_trajectory": "proctor.graders.trajectory:ToolTrajectory",
        "unscored": "proctor.graders.unscored:Unscored",
    },
)
