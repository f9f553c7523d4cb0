import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(() => ({ score: 85 }));
