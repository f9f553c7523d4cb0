import { defineAssertion } from "@agentv/eval";

export default defineAssertion(({ output }) => ({ pass: output.at(-1).content.includes("Paris") }));
