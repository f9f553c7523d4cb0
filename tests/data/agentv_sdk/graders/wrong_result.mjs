import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(() => ({ score: 1, assertions: "all good" }));
