// @ts-check
// Syntax highlighting: a tokeniser for each language, not a parser. Unknown tokens are plain text.

const MAX_CHARS = 200000;
const PYTHON = {
  comment: /#[^\n]*/,
  string: /[rRbBuUfF]{0,2}(?:"""(?:\\[^]|[^\\])*?(?:"""|$)|'''(?:\\[^]|[^\\])*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)/,
  keywords: "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield",
};
const JAVASCRIPT = {
  comment: /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)/,
  string: /`(?:\\[^]|[^`\\])*`?|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?/,
  keywords: "async await break case catch class const continue declare default delete do else export extends false finally for function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while yield",
};
const SQL = {
  comment: /--[^\n]*|\/\*[^]*?(?:\*\/|$)/,
  string: /'(?:''|[^'])*'?/,
  keywords: "all and as asc between by case cast cross desc distinct else end except exists false from full group having in inner intersect is join left like limit not null offset on or order outer over partition qualify right select then true union using values when where window with",
};
const LANGUAGES = { python: PYTHON, javascript: JAVASCRIPT, sql: SQL };
const KINDS = ["comment", "string", "number", "name"];

/** The lines of a source, each a list of [kind, text]. `holes` are undefined names, `places` are their uses: [line, start, end], with columns in UTF-8 bytes. Without places, every use of such a name is marked. */
export function coloured(source, holes = [], places = [], language = "python") {
  const lines = tokenised(source, places.length ? [] : holes, Object.hasOwn(LANGUAGES, language) ? LANGUAGES[language] : PYTHON);
  const byLine = new Map();
  for (const [line, start, end] of places) {
    if (!byLine.has(line)) byLine.set(line, []);
    byLine.get(line).push([start, end]);
  }
  return lines.map((parts, number) => marked(parts, byLine.get(number + 1) ?? []));
}

/** The parts of a line with these stretches as holes, even inside a token such as an f-string. */
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

function tokenised(source, holes, { comment, string, keywords }) {
  const token = new RegExp(`(${comment.source})|(${string.source})|(\\d[\\w.]*)|([\\p{L}_][\\p{L}\\p{N}_]*)|([^]?)`, "gu");
  const words = new Set(keywords.split(" "));
  const isKeyword = (name) => words.has(keywords === SQL.keywords ? name.toLowerCase() : name);
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
  for (const found of source.matchAll(token)) {
    const place = found.slice(1).findIndex((text) => text !== undefined);
    let kind = KINDS[place] ?? "";
    if (kind === "name") kind = isKeyword(found[0]) ? "keyword" : open.has(found[0]) ? "hole" : "";
    put(kind, found[0]);
  }
  return lines;
}
