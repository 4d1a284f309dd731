// Elements of the page. Text goes in as text, never as HTML: names and labels are anybody's.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 64; // bits a row
const TINY = 64; // pixels

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export const bits = (count) => (count === 1 ? "1 bit" : `${count.toLocaleString("en")} bits`);

export const images = (count) => (count === 1 ? "1 image" : `${count.toLocaleString("en")} images`);

export function size(bytes) {
  if (bytes < 10_000) return `${bytes.toLocaleString("en")} bytes`;
  const [unit, scale] = bytes < 1e6 ? ["kB", 1e3] : bytes < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
  return `${(bytes / scale).toLocaleString("en", { maximumSignificantDigits: 3 })} ${unit}`;
}

export function time(seconds) {
  const shown = seconds < 1 ? [seconds * 1000, "ms"] : [seconds, "s"];
  return `${shown[0].toLocaleString("en", { maximumSignificantDigits: 2 })} ${shown[1]}`;
}

// A code as a strip of cells: dark for 1, pale for 0; a bit that differs is taller and coloured.
export function strip(code, flipped = []) {
  const rows = Math.ceil(code.length / WIDTH);
  const columns = Math.ceil(code.length / rows);
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "strip");
  drawing.setAttribute("viewBox", `0 0 ${columns} ${4 * rows}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("aria-hidden", "true");
  const paths = { zero: "", one: "", flipped: "" };
  const differs = new Set(flipped);
  for (let place = 0; place < code.length; place += 1) {
    const [x, y] = [place % columns, 4 * Math.floor(place / columns)];
    if (differs.has(place)) paths.flipped += `M${x + 0.06} ${y}h.88v4h-.88z`;
    else paths[code[place] === "1" ? "one" : "zero"] += `M${x + 0.12} ${y + 0.9}h.76v2.2h-.76z`;
  }
  for (const [name, shape] of Object.entries(paths)) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    path.setAttribute("d", shape);
    drawing.append(path);
  }
  if (rows > 1) drawing.style.height = `${0.5 * rows}rem`;
  return drawing;
}

export const isTiny = (item) => Math.max(item.width, item.height) <= TINY;

// Tiny images are shown as they are: a JPEG of them would be blurred.
export const pictureOf = (item) => (isTiny(item) ? `images/${item.id}` : `images/${item.id}/thumbnail`);

function picture(item) {
  const image = element("img", { src: pictureOf(item), alt: "", loading: "lazy", decoding: "async" });
  image.classList.toggle("tiny", isTiny(item));
  const frame = element("span", { className: "picture" }, image);
  image.addEventListener("error", () => {
    const thumbnail = `images/${item.id}/thumbnail`;
    if (image.getAttribute("src") !== thumbnail) image.src = thumbnail;
    else image.replaceWith(element("span", { className: "lost", textContent: "The file cannot be read" }));
  });
  return frame;
}

// An image that a click searches from: one that was found, or any image of the index.
export function card(item, address, isQuery) {
  const facts = element("span", { className: "facts" });
  const what = element("span", { className: "what" });
  what.append(element("b", { textContent: item.labels.join(", ") || item.name }));
  if (item.bits) {
    facts.append(strip(item.bits, item.flipped));
    what.append(element("span", { className: "distance", textContent: distance(item, isQuery) }));
  }
  facts.append(what);
  if (item.labels.length) facts.append(element("span", { className: "name", textContent: item.name }));
  const link = element("a", { className: "card", href: address, title: item.name }, picture(item), facts);
  link.dataset.id = item.id;
  link.classList.toggle("itself", isQuery);
  return element("li", {}, link);
}

const distance = (item, isQuery) => (isQuery ? "query" : bits(item.distance));
