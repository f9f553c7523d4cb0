import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(() => ({ score: 0.75 }));
