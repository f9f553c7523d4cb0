import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ workspacePath, fileChanges, startTime, endTime, outputPath }) => ({
  score: [workspacePath, fileChanges, startTime, endTime, outputPath].filter((value) => value == null).length / 5,
}));
