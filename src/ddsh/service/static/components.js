// Elements of the page. Text is always inserted as text, never as HTML: names and labels are untrusted.

const SVG = "http://www.w3.org/2000/svg";
const BITS_PER_ROW = 64;
const TINY = 64; // pixels

export function createElement(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function createButton(textContent, onClick, properties = {}) {
  const button = createElement("button", { type: "button", textContent, ...properties });
  button.addEventListener("click", onClick);
  return button;
}

export const formatBits = (count) => (count === 1 ? "1 bit" : `${count.toLocaleString("en")} bits`);

export const formatImages = (count) => (count === 1 ? "1 image" : `${count.toLocaleString("en")} images`);

export function formatSize(bytes) {
  if (bytes < 10_000) return `${bytes.toLocaleString("en")} bytes`;
  const [unit, scale] = bytes < 1e6 ? ["kB", 1e3] : bytes < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
  return `${(bytes / scale).toLocaleString("en", { maximumSignificantDigits: 3 })} ${unit}`;
}

export function formatTime(seconds) {
  const [value, unit] = seconds < 1 ? [seconds * 1000, "ms"] : [seconds, "s"];
  return `${value.toLocaleString("en", { maximumSignificantDigits: 2 })} ${unit}`;
}

// Draw a code as a strip of cells: dark for 1, light for 0; bits that differ are taller and coloured.
export function codeStrip(code, flipped = []) {
  const rows = Math.ceil(code.length / BITS_PER_ROW);
  const columns = Math.ceil(code.length / rows);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "strip");
  svg.setAttribute("viewBox", `0 0 ${columns} ${4 * rows}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const paths = { zero: "", one: "", flipped: "" };
  const differing = new Set(flipped);
  for (let position = 0; position < code.length; position += 1) {
    const [x, y] = [position % columns, 4 * Math.floor(position / columns)];
    if (differing.has(position)) paths.flipped += `M${x + 0.06} ${y}h.88v4h-.88z`;
    else paths[code[position] === "1" ? "one" : "zero"] += `M${x + 0.12} ${y + 0.9}h.76v2.2h-.76z`;
  }
  for (const [name, shape] of Object.entries(paths)) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    path.setAttribute("d", shape);
    svg.append(path);
  }
  if (rows > 1) svg.style.height = `${0.5 * rows}rem`;
  return svg;
}

export const isTiny = (item) => Math.max(item.width, item.height) <= TINY;

// Tiny images are shown from the original file: a JPEG thumbnail of them would be blurred.
export const imageUrl = (item) => (isTiny(item) ? `images/${item.id}` : `images/${item.id}/thumbnail`);

export const labelsOf = (card) => JSON.parse(card.dataset.labels);

// The heading of a card is its labels, or the name of the file without labels.
export function showLabels(card, labels) {
  card.dataset.labels = JSON.stringify(labels);
  card.querySelector("b").textContent = labels.join(", ") || card.title;
  card.querySelector(".name").hidden = labels.length === 0;
}

const MATCHES = { query: "this image", file: "same file", pixels: "same pixels" };

// How similar a result is: whether it is the query itself, or per cent; and how many bits differ.
function describeHit(item) {
  // With both codes: how many label bits differ, and how many look bits.
  const differing = [item.label_distance, item.look_distance].filter((count) => count !== null);
  const bits = differing.length > 1 ? `${differing.join(" + ")} bits` : formatBits(item.distance);
  const parts = [];
  if (item.match) parts.push(createElement("span", { className: "badge", textContent: MATCHES[item.match] }));
  else if (item.similarity !== null) {
    parts.push(createElement("span", { className: "similarity", textContent: `${Math.round(item.similarity)} %` }));
  }
  if (!item.match) parts.push(createElement("span", { className: "distance", textContent: bits }));
  return createElement("span", { className: "measures" }, ...parts);
}

// A card shows an image and links to the search with it.
export function createCard(item, url) {
  const image = createElement("img", { src: imageUrl(item), alt: "", loading: "lazy", decoding: "async" });
  image.classList.toggle("tiny", isTiny(item));
  image.addEventListener("error", () => {
    const thumbnail = `images/${item.id}/thumbnail`;
    if (image.getAttribute("src") !== thumbnail) image.src = thumbnail;
    else image.replaceWith(createElement("span", { className: "unreadable", textContent: "File cannot be read" }));
  });

  const caption = createElement("span", { className: "caption" });
  const heading = createElement("span", { className: "card-heading" }, createElement("b"));
  if (item.bits) caption.append(codeStrip(item.bits, item.flipped));
  caption.append(heading);
  if (item.bits) caption.append(describeHit(item));
  caption.append(createElement("span", { className: "name", textContent: item.name }));

  const frame = createElement("span", { className: "picture" }, image);
  const link = createElement("a", { className: "card", href: url, title: item.name }, frame, caption);
  link.dataset.id = item.id;
  link.classList.toggle("is-query", item.match === "query");
  showLabels(link, item.labels);
  return createElement("li", {}, link);
}

// The card that an arrow key leads to.
export function neighbourOf(cards, card, key) {
  const top = (each) => each.parentElement.offsetTop;
  const columns = cards.filter((each) => top(each) === top(cards[0])).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  if (step === undefined) return null;
  const place = cards.indexOf(card) + step;
  // From the last full row, down leads to the last card.
  return cards[place] ?? (key === "ArrowDown" && top(cards.at(-1)) > top(card) ? cards.at(-1) : null);
}
