import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ costUsd, durationMs }) => ({
  score: typeof durationMs !== "number" ? 0 : typeof costUsd === "number" ? 1 - costUsd : 0.5,
}));
