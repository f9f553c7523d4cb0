import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ input, criteria }) => ({
  score: (JSON.stringify(input).includes("capital") ? 0.5 : 0) + (criteria.includes("Paris") ? 0.25 : 0),
}));
