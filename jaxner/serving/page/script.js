"use strict";

const EXAMPLES = {
  News: "Ms. Preston left Lakeside on Monday to join Acme Corp. in New York.\nThe Reuters office in Paris said nothing.",
  Sport: "Milan beat Ajax 2-1 in Amsterdam. Jordan, who was born in Jordan, scored twice for Milan.",
  Hard: "Washington signed Washington's bill in Washington. May may visit Reading in May.",
};
// Black on each of these has a contrast of at least 7 : 1.
const COLOURS = ["#ffd27f", "#9fd8ff", "#b8e6a0", "#ffb3c1", "#d3c0ff", "#f6ef8f", "#9ee8d8", "#e6c9a8"];
const $ = (id) => document.getElementById(id);
let types = [];
let readsDocuments = false;
let source = ""; // the text of the words
let words = []; // {node, sentence, place, index, entity}
let details = new Map(); // promises, by sentence
let request = 0; // the newest; answers to older ones are dropped

function make(name, content = "", kind = "") {
  const node = document.createElement(name);
  node.append(...[content].flat());
  node.className = kind;
  return node;
}

function say(text, isBad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", isBad);
}

async function ask(path, options) {
  const answer = await fetch(path, options).catch(() => { throw new Error("The service does not answer …"); });
  const content = await answer.json().catch(() => null); // a proxy has pages of its own
  if (answer.status === 401) $("lock").hidden = false;
  if (!answer.ok || !content) throw new Error(content?.error ?? `Not an answer of the service: status ${answer.status}`);
  return content;
}

async function post(path, body) {
  const headers = { "content-type": "application/json" };
  if ($("key").value) headers.authorization = `Bearer ${$("key").value}`;
  const content = await ask(path, { method: "POST", headers, body: JSON.stringify(body) });
  return content.results[0];
}

const colour = (type) => COLOURS[Math.max(types.indexOf(type), 0) % COLOURS.length];
// At most 99, since no entity is certain.
const percent = (share) => `${Math.min(Math.floor(100 * share), 99)}\u00a0%`;

function chip(type) {
  const node = make("span", type, "type");
  node.style.setProperty("--colour", colour(type));
  return node;
}

async function tag() {
  const text = $("text").value;
  const number = ++request;
  const start = performance.now();
  try {
    const [tagged, found] = await Promise.all([
      post("v1/tag", { texts: text }),
      types.length ? post("v1/entities", { texts: text }) : { entities: [] },
    ]);
    if (number !== request) return;
    draw(text, tagged.sentences, found.entities);
    const count = types.length ? found.entities.length : words.length;
    const [one, more] = types.length ? ["entity", "entities"] : ["token", "tokens"];
    say(`${count} ${count === 1 ? one : more} in ${Math.round(performance.now() - start)} ms`);
  } catch (error) {
    if (number !== request) return;
    say(error.message, true);
    $("answer").hidden = $("detail").hidden = true;
  }
}

function draw(text, sentences, entities) {
  const letters = Array.from(text); // offsets count code points
  const between = (from, to) => letters.slice(from, to).join("");
  const box = $("words");
  box.replaceChildren();
  source = text;
  words = [];
  details = new Map();
  let end = 0;
  let home = box;
  sentences.forEach((sentence, place) => sentence.tokens.forEach((token, index) => {
    const [from, to] = sentence.offsets[index];
    const inside = entities.find((e) => e.start_char <= from && to <= e.end_char);
    if (home.entity !== inside) home = box;
    home.append(between(end, from));
    if (inside && home === box) {
      home = box.appendChild(make("mark"));
      home.entity = inside;
      home.style.setProperty("--colour", colour(inside.type));
    }
    const node = make("span", token, "word");
    node.tabIndex = words.length ? -1 : 0;
    node.role = "button";
    node.ariaPressed = "false";
    node.dataset.number = words.length;
    if (!types.length) node.title = sentence.labels[index];
    home.append(node);
    words.push({ node, sentence, place, index, entity: inside });
    end = to;
    if (inside && to === inside.end_char) home.append(make("small", `${inside.type} ${percent(inside.probability)}`));
  }));
  box.append(between(end));
  $("answer").hidden = !words.length;
  $("detail").hidden = true;
  $("types").replaceChildren(...types.filter((t) => entities.some((e) => e.type === t)).map(chip));
  hide();
}

function hide() {
  const least = Number($("least").value);
  $("shown").textContent = `${least} %`;
  for (const mark of $("words").querySelectorAll("mark")) {
    mark.classList.toggle("hidden", 100 * mark.entity.probability < least);
  }
}

async function choose(number) {
  const word = words[number];
  const { sentence, place, index, entity } = word;
  for (const each of words) each.node.ariaPressed = String(each === word);
  if (!details.has(sentence)) {
    const body = { n_best: 5, uncertainty: true, maps: true };
    // Alone, a sentence of a document might have other labels.
    Object.assign(body, readsDocuments ? { texts: source } : { tokens: sentence.tokens });
    // A tagger without probabilities has no more to say.
    const more = () => post("v1/tag", body).then((result) => result.sentences[readsDocuments ? place : 0]);
    details.set(sentence, sentence.probabilities ? more() : Promise.resolve(sentence));
  }
  const answer = await details.get(sentence).catch((error) => ({ error: error.message }));
  if (answer.error) details.delete(sentence);
  if (words[number] !== word || word.node.ariaPressed !== "true") return;
  $("detail").hidden = false;
  if (answer.error) return $("detail").replaceChildren(make("p", answer.error, "bad"));
  const same = words.filter((w) => (entity ? w.entity === entity : w === word)).map((w) => w.index);
  const label = (labels) => same.map((i) => labels[i]).join(" ");
  const parts = [make("h2", entity ? [`${entity.text} `, chip(entity.type)] : sentence.tokens[index])];
  const rows = [];
  if (entity) rows.push(["Probability of this entity", percent(entity.probability)]);
  rows.push([same.length > 1 ? "Labels" : "Label", label(answer.labels)]);
  parts.push(table(rows));
  if (answer.uncertainty) {
    const worst = (name, best) => best(...same.map((i) => answer.uncertainty[name][i]));
    parts.push(make("h3", "Uncertainty, over passes with dropout"), table([
      ["Entropy", `${worst("entropy", Math.max).toFixed(3)} nats`],
      ["Mutual information", `${worst("mutual_information", Math.max).toFixed(3)} nats`],
      ["Passes that agree", `${Math.round(100 * worst("vote_share", Math.min))} %`],
    ]));
  }
  if (answer.labellings) {
    const chances = new Map();
    for (const each of answer.labellings) {
      chances.set(label(each.labels), (chances.get(label(each.labels)) ?? 0) + each.probability);
    }
    const best = [...chances].sort((a, b) => b[1] - a[1]);
    parts.push(make("h3", `Labels here in the ${answer.labellings.length} best labellings`));
    parts.push(table(best.map(([labels, chance]) => [labels, percent(chance)])));
  }
  const mean = (heads) => heads.reduce((a, b) => a + b) / heads.length;
  const strengths = answer.relations?.[index] ?? answer.attention?.[index].map(mean);
  const most = Math.max(...(strengths ?? [1]), 1e-9);
  for (const each of words) {
    const isWarm = strengths && each.sentence === sentence;
    each.node.classList.toggle("warm", Boolean(isWarm));
    if (isWarm) each.node.style.setProperty("--share", `${100 * strengths[each.index] / most}%`);
  }
  if (strengths) {
    const order = strengths.map((_, i) => i).sort((a, b) => strengths[b] - strengths[a]).slice(0, 8);
    const title = answer.relations ? "relates to" : "attends to";
    parts.push(make("h3", `What “${sentence.tokens[index]}” ${title}`), table(order.map((i) => {
      const meter = make("meter");
      meter.value = strengths[i] / most;
      meter.ariaLabel = sentence.tokens[i];
      return [sentence.tokens[i], meter, strengths[i].toFixed(2)];
    })));
  }
  $("detail").replaceChildren(...parts);
}

function table(rows) {
  return make("table", rows.map((row) => make("tr", row.map((cell) => make("td", cell)))));
}

function focus(number) {
  for (const { node } of words) node.tabIndex = -1;
  words[number].node.tabIndex = 0;
  words[number].node.focus();
}

$("form").addEventListener("submit", (event) => { event.preventDefault(); tag(); });
$("least").addEventListener("input", hide);
$("words").addEventListener("click", (event) => {
  const node = event.target.closest(".word") ?? event.target.closest("mark")?.querySelector(".word");
  if (!node) return;
  focus(Number(node.dataset.number));
  choose(Number(node.dataset.number));
});
$("words").addEventListener("keydown", (event) => {
  const now = Number(event.target.dataset.number);
  const last = words.length - 1;
  const isOther = (w) => w.entity && w.entity !== words[now].entity;
  const next = words.findIndex((w, i) => i > now && isOther(w));
  const before = words.findLast((w, i) => i < now && isOther(w));
  const moves = {
    ArrowRight: Math.min(now + 1, last), ArrowLeft: Math.max(now - 1, 0), Home: 0, End: last,
    ArrowDown: next < 0 ? now : next,
    ArrowUp: before ? words.findIndex((w) => w.entity === before.entity) : now,
  };
  if (event.key === "Enter" || event.key === " ") choose(now);
  else if (event.key in moves) focus(moves[event.key]);
  else return;
  event.preventDefault();
});
for (const [name, text] of Object.entries(EXAMPLES)) {
  const button = make("button", name);
  button.type = "button";
  button.addEventListener("click", () => { $("text").value = text; tag(); });
  $("examples").append(button);
}

async function begin() {
  try {
    ({ types, reads_documents: readsDocuments } = await ask("ready"));
    say("Ready");
  } catch (error) {
    say(error.message);
    setTimeout(begin, 1000);
  }
}
begin();
