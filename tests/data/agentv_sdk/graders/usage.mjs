import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ tokenUsage }) => ({
  score: tokenUsage ? (tokenUsage.input + tokenUsage.output + (tokenUsage.cached ?? 0)) / 1000 : 0.5,
}));
