// Tags tokens with what `jaxner export-onnx` wrote: a model, and its JSON file beside it.
import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs";

ort.env.wasm.numThreads = 1; // several need the headers of cross-origin isolation

export async function load(path) {
  const side = path.replace(/onnx$/, "json");
  const answer = await fetch(side);
  if (!answer.ok) throw Error(`There is no ${side}, which jaxner export-onnx writes beside ${path}.`);
  const about = await answer.json();
  if (about.pieces || about.vector_sizes || about.label_names.at(-1) === "<sep>") {
    throw Error("This page has no word pieces, vectors of tokens, or documents.");
  }
  const ids = (list) => new Map(list.map((text, id) => [text, id]).slice(2)); // 0, 1: special
  const session = await ort.InferenceSession.create(path);
  return { about, session, words: ids(about.words), chars: ids(about.chars) };
}

export async function tag(tagger, tokens) {
  if (!tokens.length) return [];
  const normal = tokens.map((token) => normalise(tagger.about, token));
  const spelled = normal.map((token) => [...token].slice(0, tagger.about.max_characters));
  const width = Math.max(1, ...spelled.map((chars) => chars.length));
  const at = (list, i) => (i < list.length ? charId(tagger, list[i]) : 0); // 0: padding
  const chars = spelled.flatMap((list) => Array.from({ length: width }, (_, i) => at(list, i)));
  const scores = await tagger.session.run({
    words: int64(normal.map((token) => wordId(tagger, token)), [tokens.length]),
    caps: int64(normal.map(caps), [tokens.length]),
    chars: int64(chars, [tokens.length, width]),
  });
  const labels = scores.labels ? [...scores.labels.data].map(Number) : viterbi(scores);
  return labels.map((label) => tagger.about.label_names[label]);
}

const int64 = (values, dims) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), dims);

const ESCAPES = { __proto__: null, // the word "constructor" is no escape
  "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
  "/.": ".", "/?": "?", "/-": "-" };

function normalise(about, token) {
  const composed = token.normalize(); // NFC
  const text = about.unescape ? (ESCAPES[composed] ?? composed) : composed;
  return about.zero_digits ? text.replace(/\p{Nd}/gu, "0") : text;
}

function wordId({ about, words }, token) {
  const lowered = about.lowercase || about.lowercase_fallback ? token.toLowerCase() : null;
  return (about.lowercase ? null : words.get(token)) ?? words.get(lowered) ?? 1;
}

function charId({ about, chars }, char) {
  const kind = about.typed_unknowns ? about.char_types.findIndex((type) => type.includes(char)) : -1;
  return chars.get(char) ?? (kind < 0 ? 1 : about.chars.length + kind);
}

function caps(token) { // as jaxner.types.Caps
  if (!token) return 0;
  const upper = /\p{Uppercase}/u.test(token);
  const lower = /[\p{Lowercase}\p{Lt}]/u.test(token);
  if (/^\p{Uppercase}+$/u.test(token)) return 1;
  if (upper) return (lower ? 4 : 2) + !/^\p{Uppercase}/u.test(token);
  return lower && !/\p{Lt}/u.test(token) ? 6 : 7;
}

const argmax = (scores) => scores.indexOf(Math.max(...scores));

function viterbi({ emissions, transitions, start, end }) {
  const [length, size] = emissions.dims;
  const pair = (i, j) => (transitions ? transitions.data[i * size + j] : 0);
  const labels = [...Array(size).keys()];
  const row = (t) => labels.map((j) => emissions.data[t * size + j]);
  let best = row(0).map((score, j) => score + (start ? start.data[j] : 0));
  const back = [];
  for (let t = 1; t < length; t++) {
    const from = labels.map((j) => argmax(best.map((score, i) => score + pair(i, j))));
    best = row(t).map((score, j) => score + best[from[j]] + pair(from[j], j));
    back.unshift(from);
  }
  const path = [argmax(best.map((score, j) => score + (end ? end.data[j] : 0)))];
  for (const from of back) path.unshift(from[path[0]]);
  return path;
}
