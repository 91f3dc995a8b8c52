// Python source in colours: a tokeniser, not a parser. What it does not know is plain text.

const MAX_CHARS = 200000;
const KEYWORDS = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield".split(" "),
);
const TOKEN =
  /(#[^\n]*)|([rRbBuUfF]{0,2}(?:"""(?:\\[^]|[^\\])*?(?:"""|$)|'''(?:\\[^]|[^\\])*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(\d[\w.]*)|([\p{L}_][\p{L}\p{N}_]*)|([^]?)/gu;
const KINDS = ["comment", "string", "number", "name"];

/** The lines of a source, each a list of [kind, text]; `holes` are names that nobody defined. */
export function coloured(source, holes = []) {
  const lines = [[]];
  const open = new Set(holes);
  const put = (kind, text) => {
    text.split("\n").forEach((part, number) => {
      if (number) lines.push([]);
      const line = lines.at(-1);
      if (!part) return;
      if (line.length && line.at(-1)[0] === kind) line.at(-1)[1] += part;
      else line.push([kind, part]);
    });
  };
  if (source.length > MAX_CHARS) {
    put("", source);
    return lines;
  }
  for (const found of source.matchAll(TOKEN)) {
    const place = found.slice(1).findIndex((text) => text !== undefined);
    let kind = KINDS[place] ?? "";
    if (kind === "name") kind = KEYWORDS.has(found[0]) ? "keyword" : open.has(found[0]) ? "hole" : "";
    put(kind, found[0]);
  }
  return lines;
}
