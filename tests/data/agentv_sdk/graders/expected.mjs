import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ expectedOutput, output }) => ({
  score: output.at(-1).content === expectedOutput[0]?.content ? 1 : 0.25,
}));
