import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ trace }) => ({
  score: trace ? 1 / (1 + trace.eventCount + trace.errorCount + (trace.toolCalls.search ?? 0)) : 0.5,
}));
