"""Graders: `Output` to `GraderResult`, one file for each family. `GRADERS` maps names to classes.

In: a `GradingInput`. Out: a `GraderResult` with value, reason and evidence, or `CannotScore`. `judged/` calls
judges, `numbers/` reads numbers in prose, `lexicons/` knows words in six languages, `program.py` runs
programs. Start reading with `text.py`, which has the simplest ones.
"""

from typing import Any

from proctor.registry import Registry

GRADERS: Registry[type[Any]] = Registry(
    "graders",
    {
        "abstention": "proctor.graders.abstention:Abstention",
        "choice": "proctor.graders.choice:Choice",
        "classification": "proctor.graders.judged.classification:Classification",
        "composite": "proctor.graders.composite:Composite",
        "consistency": "proctor.graders.consistency:Consistency",
        "contains": "proctor.graders.text:Contains",
        "contains_all": "proctor.graders.text:ContainsAll",
        "contains_any": "proctor.graders.text:ContainsAny",
        "contains_json": "proctor.graders.json_in_text:ContainsJson",
        "cost": "proctor.graders.metrics:Cost",
        "ends_with": "proctor.graders.text:EndsWith",
        "exact": "proctor.graders.text:Exact",
        "execution_metrics": "proctor.graders.metrics:ExecutionMetrics",
        "field_accuracy": "proctor.graders.field_accuracy:FieldAccuracy",
        "forbidden_words": "proctor.graders.required_words:ForbiddenWords",
        "fuzzy_match": "proctor.graders.fuzzy_match:FuzzyMatch",
        "hedges": "proctor.graders.hedges:Hedges",
        "instructions": "proctor.graders.judged.instructions:Instructions",
        "is_json": "proctor.graders.json_structure:IsJson",
        "json_array": "proctor.graders.json_structure:JsonArray",
        "json_keys": "proctor.graders.json_structure:JsonKeys",
        "json_schema": "proctor.graders.json_structure:JsonSchema",
        "latency": "proctor.graders.metrics:Latency",
        "length": "proctor.graders.length:Length",
        "llm_grader": "proctor.graders.judged.score:LlmGrader",
        "llm_judge": "proctor.graders.judged.yes_no:LlmJudge",
        "multiple_choice": "proctor.graders.multiple_choice:MultipleChoice",
        "number": "proctor.graders.numbers.graders:Number",
        "numeric_equal": "proctor.graders.numbers.graders:NumericEqual",
        "numeric_match": "proctor.graders.numbers.graders:NumericMatch",
        "program": "proctor.graders.program:Program",
        "refusal": "proctor.graders.refusal:Refusal",
        "regex": "proctor.graders.text:Regex",
        "required_words": "proctor.graders.required_words:RequiredWords",
        "rubric": "proctor.graders.judged.rubric:RubricGrader",
        "rubrics": "proctor.graders.judged.rubrics:Rubrics",
        "semantic_similarity": "proctor.graders.similarity:SemanticSimilarity",
        "skill_trigger": "proctor.graders.tool_trajectory:SkillTrigger",
        "starts_with": "proctor.graders.text:StartsWith",
        "token_usage": "proctor.graders.metrics:TokenUsage",
        "tokens_per_second": "proctor.graders.speed:TokensPerSecond",
        "tool_trajectory": "proctor.graders.tool_trajectory:ToolTrajectory",
        "ttft": "proctor.graders.speed:Ttft",
        "unscored": "proctor.graders.unscored:Unscored",
    },
)
