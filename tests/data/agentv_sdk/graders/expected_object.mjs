import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ expectedOutput }) => ({ score: expectedOutput.length / 4 }));
