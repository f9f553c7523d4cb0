import { defineCodeGrader } from "@agentv/eval";

export default defineCodeGrader(({ output }) => {
  const calls = output.flatMap((message) => message.toolCalls ?? []);
  const timed = calls.filter((call) => call.durationMs !== undefined);
  return { score: calls.length ? timed.length / calls.length : 0.125 };
});
