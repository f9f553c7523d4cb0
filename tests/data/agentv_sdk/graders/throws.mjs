import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(() => {
  throw new Error("the index of the corpus is missing");
});
