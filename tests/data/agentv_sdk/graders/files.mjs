import { basename } from "node:path";

import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ inputFiles }) => ({
  score: inputFiles.map((path) => basename(path)).includes("notes.txt") ? 1 : 0.5,
}));
