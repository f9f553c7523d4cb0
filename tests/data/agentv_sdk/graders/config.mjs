import { defineCodeGrader, z } from "@agentv/eval";

const Config = z.object({ keywords: z.array(z.string()), share: z.number().default(0.5) });

export default defineCodeGrader(({ config, output }) => {
  const { keywords, share } = Config.parse(config ?? {});
  const text = output.at(-1).content;
  return { score: keywords.every((word) => text.includes(word)) ? share : 0 };
});
