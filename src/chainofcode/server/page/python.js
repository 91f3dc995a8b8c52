// @ts-check
// Python source in colours: a tokeniser, not a parser. What it does not know is plain text.

const MAX_CHARS = 200000;
const KEYWORDS = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield".split(" "),
);
const TOKEN =
  /(#[^\n]*)|([rRbBuUfF]{0,2}(?:"""(?:\\[^]|[^\\])*?(?:"""|$)|'''(?:\\[^]|[^\\])*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(\d[\w.]*)|([\p{L}_][\p{L}\p{N}_]*)|([^]?)/gu;
const KINDS = ["comment", "string", "number", "name"];

/** The lines of a source, each a list of [kind, text]. `holes` are undefined names, used where `places` says: [line, first column, last column], in UTF-8 bytes. Traces without places mark every use of such a name. */
export function coloured(source, holes = [], places = []) {
  const lines = tokenised(source, places.length ? [] : holes);
  const byLine = new Map();
  for (const [line, start, end] of places) {
    if (!byLine.has(line)) byLine.set(line, []);
    byLine.get(line).push([start, end]);
  }
  return lines.map((parts, number) => marked(parts, byLine.get(number + 1) ?? []));
}

/** The parts of a line with these stretches as holes, wherever the tokens begin and end: also inside an f-string. */
function marked(parts, stretches) {
  if (!stretches.length) return parts;
  const ordered = stretches.toSorted((one, other) => one[0] - other[0]);
  const found = [];
  let at = 0; // in bytes
  let next = 0;
  for (const [kind, text] of parts) {
    for (const character of text) {
      while (next < ordered.length && at >= ordered[next][1]) next++;
      const isHole = next < ordered.length && at >= ordered[next][0];
      const own = isHole ? "hole" : kind;
      if (found.at(-1)?.[0] === own) found.at(-1)[1] += character;
      else found.push([own, character]);
      at += bytesOf(character.codePointAt(0));
    }
  }
  return found;
}

function bytesOf(code) {
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}

function tokenised(source, holes) {
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
