import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(async () => {
  const details = { tp: 3, fp: 1, fn: 2 };
  return { score: details.tp / (details.tp + details.fp), details };
});
