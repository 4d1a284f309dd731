// Map of the images: a canvas of points, coloured by label. Points are drawn again whenever the view changes, pixel by
// pixel: 10,000 calls of fillRect would take longer than a frame.

import { request } from "./api.js";
import { createElement, formatImages } from "./components.js";

const N_COLOURS = 10;
const RADIUS = 3; // of a point, in CSS pixels
const REACH = 14; // how far from a point a click may be
const MAX_ZOOM = 200;
const byId = (id) => document.getElementById(id);

const canvas = byId("canvas");
const context = canvas.getContext("2d", { willReadFrequently: true }); // so its pixels are where we write them
let points = null; // { ids, x, y, label, labels, n_images }
let view = { x: 0.5, y: 0.5, zoom: 1 }; // the middle of the view, and how much larger it is than the whole map
let selected = null; // the place of a point in the lists
let only = null; // the label that is shown alone
let colours = []; // as written in CSS
let colourPixels = []; // the same, as pixels of the canvas
let image = null; // the content of the canvas
let scheduled = false;
let order = []; // places of all points: those without a label first, so that they cover no others

let [width, height] = [1, 1]; // of the canvas, in CSS pixels; asking it for every point would be slow
const side = () => Math.max(1, Math.min(width, height) - 32);
const screenX = (place) => width / 2 + (points.x[place] - view.x) * side() * view.zoom;
const screenY = (place) => height / 2 - (points.y[place] - view.y) * side() * view.zoom;
const toScreen = (place) => [screenX(place), screenY(place)];
const isShown = (place) => only === null || points.label[place] === only;
const colourOf = (label) => (label >= 0 && label < N_COLOURS ? label : N_COLOURS); // its place in the list

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = [...Array(N_COLOURS).keys(), "none"];
  colours = names.map((name) => style.getPropertyValue(`--point-${name}`).trim());
  colourPixels = colours.map((colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.globalAlpha = 0.8;
    context.fillRect(0, 0, 1, 1);
    return new Uint32Array(context.getImageData(0, 0, 1, 1).data.buffer)[0];
  });
}

function resize() {
  [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const scale = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.max(1, width * scale), Math.max(1, height * scale)];
  image = context.createImageData(canvas.width, canvas.height);
  redraw();
}

const pointRadius = () => Math.round(RADIUS * Math.min(2.5, Math.sqrt(Math.max(1, view.zoom / 2))));

// The mean of two pixels, of all four bytes at once.
const meanColour = (a, b) => (a & b) + (((a ^ b) & 0xfefefefe) >>> 1);

function draw() {
  scheduled = false;
  const pixels = new Uint32Array(image.data.buffer);
  const [columns, rows] = [canvas.width, canvas.height];
  const scale = columns / Math.max(1, width);
  const size = Math.round(2 * pointRadius() * scale);
  pixels.fill(0);
  for (const place of order) {
    if (!isShown(place)) continue;
    const colour = colourPixels[colourOf(points.label[place])];
    const left = Math.round(screenX(place) * scale - size / 2);
    const top = Math.round(screenY(place) * scale - size / 2);
    const [first, last] = [Math.max(0, left), Math.min(columns, left + size)];
    const bottom = Math.min(rows, top + size);
    for (let row = Math.max(0, top); row < bottom; row += 1) {
      for (let at = row * columns + first; at < row * columns + last; at += 1) {
        pixels[at] = pixels[at] ? meanColour(meanColour(pixels[at], colour), colour) : colour;
      }
    }
  }
  context.putImageData(image, 0, 0);
}

function redraw() {
  if (!scheduled && points) requestAnimationFrame(draw);
  scheduled = points !== null;
}

// Selecting a point shows its image beside it.
function select(place) {
  selected = place;
  const [card, ring] = [byId("point"), byId("ring")];
  [card.hidden, ring.hidden] = [place === null, place === null];
  if (place !== null) {
    const id = points.ids[place];
    const label = points.labels[points.label[place]] ?? `Image ${id}`;
    const [x, y] = toScreen(place);
    const side = 2 * pointRadius() + 8;
    ring.style.cssText = `height: ${side}px; transform: translate(${x - side / 2}px, ${y - side / 2}px); width: ${side}px`;
    byId("point-image").src = `images/${id}/thumbnail`;
    byId("point-labels").textContent = label;
    const left = x + 16 + card.offsetWidth > width ? x - 16 - card.offsetWidth : x + 16;
    const top = Math.min(Math.max(0, y - 40), height - card.offsetHeight);
    card.style.transform = `translate(${Math.max(0, left)}px, ${top}px)`;
    canvas.setAttribute("aria-label", `Map of the images: ${label}, image ${id}`);
  }
  canvas.dataset.id = place === null ? "" : points.ids[place];
}

function nearestTo(x, y, reach) {
  let [best, least] = [null, reach * reach];
  for (let place = 0; place < points.ids.length; place += 1) {
    if (!isShown(place)) continue;
    const [px, py] = toScreen(place);
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance <= least) [best, least] = [place, distance];
  }
  return best;
}

// Zoom so that what lies under a position of the screen stays there.
function zoomBy(factor, x = width / 2, y = height / 2) {
  const zoom = Math.min(MAX_ZOOM, Math.max(1, view.zoom * factor));
  const shift = (1 / (side() * view.zoom) - 1 / (side() * zoom));
  move(view.x + (x - width / 2) * shift, view.y - (y - height / 2) * shift, zoom);
}

function move(x, y, zoom = view.zoom) {
  const clamp = (value) => Math.min(1, Math.max(0, value));
  view = zoom === 1 ? { x: 0.5, y: 0.5, zoom } : { x: clamp(x), y: clamp(y), zoom };
  canvas.dataset.zoom = zoom.toFixed(2);
  select(selected);
  redraw();
}

const search = (place) => location.assign(`./#id=${points.ids[place]}`);

// Pointer: hover shows an image, a click searches, dragging moves the map, two fingers zoom.

const pointers = new Map();
let dragged = 0;

const place = (event) => [event.clientX - canvas.getBoundingClientRect().left, event.clientY - canvas.getBoundingClientRect().top];

canvas.addEventListener("pointerdown", (event) => {
  if (!points) return;
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, place(event));
  if (pointers.size === 1) dragged = 0;
});

canvas.addEventListener("pointermove", (event) => {
  if (!points) return;
  const [x, y] = place(event);
  const before = pointers.get(event.pointerId);
  if (!before) {
    select(nearestTo(x, y, REACH));
    return;
  }
  const spread = () => {
    const [[ax, ay], [bx, by]] = [...pointers.values()];
    return Math.hypot(ax - bx, ay - by);
  };
  const old = pointers.size === 2 ? spread() : null;
  pointers.set(event.pointerId, [x, y]);
  dragged += Math.hypot(x - before[0], y - before[1]);
  if (old) zoomBy(spread() / old, x, y);
  else move(view.x - (x - before[0]) / (side() * view.zoom), view.y + (y - before[1]) / (side() * view.zoom));
});

canvas.addEventListener("pointerup", (event) => {
  const wasDown = pointers.delete(event.pointerId);
  if (!points || !wasDown || pointers.size || dragged > 5) return;
  const found = nearestTo(...place(event), REACH);
  if (found !== null) search(found);
});

// An image that the keyboard has gone to stays.
canvas.addEventListener("pointerleave", () => points && document.activeElement !== canvas && select(null));

canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (points) zoomBy(Math.exp(-event.deltaY / 400), ...place(event));
}, { passive: false });

byId("zoom-in").addEventListener("click", () => points && zoomBy(1.6));
byId("zoom-out").addEventListener("click", () => points && zoomBy(1 / 1.6));
byId("zoom-reset").addEventListener("click", () => points && move(0.5, 0.5, 1));

// Keys: arrows go to the nearest point in their direction.

function step(dx, dy) {
  if (selected === null) return nearestTo(width / 2, height / 2, Infinity);
  const [x, y] = toScreen(selected);
  let [best, least] = [selected, Infinity];
  for (let each = 0; each < points.ids.length; each += 1) {
    if (each === selected || !isShown(each)) continue;
    const [px, py] = toScreen(each);
    const along = (px - x) * dx + (py - y) * dy;
    const across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (along > 0 && along >= across && along + 2 * across < least) [best, least] = [each, along + 2 * across];
  }
  return best;
}

canvas.addEventListener("keydown", (event) => {
  if (!points?.ids.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const actions = {
    "+": () => zoomBy(1.6),
    "=": () => zoomBy(1.6),
    "-": () => zoomBy(1 / 1.6),
    0: () => move(0.5, 0.5, 1),
    Enter: () => selected !== null && search(selected),
    Escape: () => select(null),
  };
  if (event.key in arrows) {
    select(step(...arrows[event.key]));
    const [x, y] = toScreen(selected);
    if (x < 0 || y < 0 || x > width || y > height) {
      move(points.x[selected], points.y[selected]);
    }
  } else if (event.key in actions) actions[event.key]();
  else return;
  event.preventDefault();
});

canvas.addEventListener("blur", () => select(null));

// Legend: a click shows one label alone.

function showLegend() {
  const counts = new Map();
  for (const label of points.label) counts.set(label, (counts.get(label) ?? 0) + 1);
  const entries = points.labels.slice(0, N_COLOURS).map((name, label) => [label, name]);
  const nOthers = points.labels.length - entries.length;
  const items = entries.map(([label, name]) => {
    const text = `${name} (${(counts.get(label) ?? 0).toLocaleString("en")})`;
    const dot = createElement("span", { className: "dot" });
    dot.style.background = colours[colourOf(label)];
    const button = createElement("button", { type: "button", className: "chip" }, dot, createElement("span", { textContent: text }));
    button.setAttribute("aria-pressed", only === label);
    button.addEventListener("click", () => {
      only = only === label ? null : label;
      select(null);
      redraw();
      showLegend();
      byId("legend").children[label].firstChild.focus();
    });
    return createElement("li", {}, button);
  });
  if (nOthers > 0) items.push(createElement("li", { textContent: `and ${nOthers.toLocaleString("en")} more, grey` }));
  byId("legend").replaceChildren(...items);
}

async function load() {
  try {
    const found = await request("points");
    readColours();
    points = found;
    order = found.ids.map((_, each) => each).sort((a, b) => (found.label[a] >= 0) - (found.label[b] >= 0));
    const n = found.ids.length;
    byId("status").textContent =
      n === 0 ? "The index is empty." :
      n < found.n_images ? `A random sample of ${formatImages(n)} of ${found.n_images.toLocaleString("en")}.` :
      `All ${formatImages(n)} of the index.`;
    showLegend();
    resize();
    move(0.5, 0.5, 1);
  } catch (error) {
    byId("status").textContent = "";
    byId("error").textContent = error.message;
    if (error.status === undefined) throw error;
  }
  byId("map").setAttribute("aria-busy", false);
}

new ResizeObserver(resize).observe(byId("frame"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  if (points) showLegend();
  redraw();
});

load();
