import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ output }) => {
  const text = output.map((message) => message.content ?? "").join(" ");
  const assertions = ["Paris", "France", "Rome"].map((word) => ({
    text: `names ${word}`,
    passed: text.includes(word),
    evidence: text,
  }));
  return { score: assertions.filter((item) => item.passed).length / assertions.length, assertions };
});
