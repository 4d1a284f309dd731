// The search page: the address says what is searched for, everything else follows from it.

import { Refused, askFacts, askItem, askSamples, search } from "./api.js";
import { bits, card, element, images, isTiny, pictureOf, size, strip, time } from "./components.js";
import { readState, writeState } from "./state.js";

const N_SAMPLES = 18;
const at = (id) => document.getElementById(id);

const uploads = new Map(); // by number, for as long as the page is open
const clicked = new Map(); // by address: the image that was clicked there
let facts = null;
let samples = null;
let state = readState(location.hash);
let underway = new AbortController();
let focusNext = false;

const busy = (is) => at("results").setAttribute("aria-busy", is);

function go(changes) {
  const next = writeState({ ...state, ...changes });
  if (next === writeState(state)) return;
  busy(true);
  location.hash = next;
}

// Images to search with

function take(file) {
  if (!file) return;
  if (facts && file.size > facts.max_upload_bytes) {
    complain(new Refused(`This file has ${size(file.size)}; the limit is ${size(facts.max_upload_bytes)}.`, 413));
    return;
  }
  const upload = uploads.size + 1;
  uploads.set(upload, { file, url: URL.createObjectURL(file) });
  go({ id: null, upload });
}

at("choose").addEventListener("click", () => at("file").click());

at("file").addEventListener("change", (event) => {
  take(event.target.files[0]);
  event.target.value = "";
});

document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files].find((each) => each.type.startsWith("image/"));
  if (file) {
    event.preventDefault();
    take(file);
  }
});

const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");

document.addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  document.body.classList.add("dragging");
});

document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dragging");
});

document.addEventListener("drop", (event) => {
  document.body.classList.remove("dragging");
  if (!carriesFiles(event)) return;
  event.preventDefault();
  take(event.dataTransfer.files[0]);
});

// How to search

function showControls() {
  at("k").value = state.k;
  at("radius").value = state.radius ?? facts.n_bits;
  showRadius();
  at("label").value = state.label ?? "";
  at("rerank").checked = state.rerank;
}

function chosenRadius() {
  const value = Number(at("radius").value);
  return value >= facts.n_bits ? null : value; // all codes are that near
}

function showRadius() {
  const radius = chosenRadius();
  const shown = radius === null ? "any" : radius === 0 ? "same code" : `up to ${bits(radius)}`;
  at("radius-shown").textContent = shown;
  at("radius").setAttribute("aria-valuetext", shown);
}

function prepareControls() {
  at("k").max = facts.max_k;
  at("radius").max = facts.n_bits;
  const names = Object.entries(facts.labels);
  const options = names.map(([name, count]) =>
    element("option", { value: name, textContent: `${name} (${count.toLocaleString("en")})` }),
  );
  if (facts.n_labels > names.length) {
    // Too many to choose from: the most frequent are offered, any may be written.
    at("label").replaceWith(element("input", { type: "text", id: "label", placeholder: "any", autocomplete: "off" }));
    at("label").setAttribute("list", "labels");
    at("label-row").append(element("datalist", { id: "labels" }, ...options));
  } else {
    at("label").append(...options);
  }
  at("label-row").hidden = facts.n_labels === 0;
}

at("controls").addEventListener("submit", (event) => event.preventDefault());
at("radius").addEventListener("input", showRadius);
at("controls").addEventListener("change", () => {
  const k = Math.min(facts.max_k, Math.max(1, Math.round(Number(at("k").value)) || 1));
  go({ k, radius: chosenRadius(), label: at("label").value || null, rerank: at("rerank").checked });
  at("k").value = k;
});
at("widen").addEventListener("click", () => {
  focusNext = true;
  go({ radius: null });
});

// What is shown

function showFacts() {
  const shown = [
    [facts.n_images.toLocaleString("en"), facts.n_images === 1 ? "image" : "images"],
    [facts.n_bits, facts.n_bits === 1 ? "bit each" : "bits each"],
    [size(facts.n_bytes), "of codes"],
    [facts.n_codes.toLocaleString("en"), facts.n_codes === 1 ? "distinct code" : "distinct codes"],
  ];
  at("facts").replaceChildren(
    ...shown.map(([value, name]) =>
      element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value })),
    ),
  );
}

function complain(error) {
  at("problem").replaceChildren(element("span", { textContent: error.message }));
  if (error.mayTryAgain) {
    const again = element("button", { type: "button", textContent: "Try again" });
    again.addEventListener("click", show);
    at("problem").append(again);
  }
}

function clear() {
  at("problem").replaceChildren();
  at("nothing").hidden = true;
}

function showQuery(item, upload) {
  const asked = item !== null || upload !== null;
  at("query").classList.toggle("asked", asked);
  at("caption").hidden = !asked;
  at("preview").hidden = !asked;
  at("no-preview").hidden = true;
  at("query-strip").replaceChildren();
  at("choose").textContent = asked ? "Choose another image" : "Choose an image";
  if (!asked) return;
  at("preview").src = item ? pictureOf(item) : upload.url;
  at("preview").alt = item ? `Query: image ${item.id}` : "Query: your image";
  at("query-label").textContent = item ? item.labels.join(", ") || `Image ${item.id}` : "Your image";
  at("query-name").textContent = item ? item.name : upload.file.name;
  at("original").hidden = item === null;
  at("original").href = item ? `images/${item.id}` : "#";
  at("restart").href = writeState({ ...state, id: null, upload: null });
}

at("preview").addEventListener("error", () => {
  at("preview").hidden = true;
  at("no-preview").hidden = false;
});

at("preview").addEventListener("load", ({ target }) => {
  target.classList.toggle("tiny", isTiny({ width: target.naturalWidth, height: target.naturalHeight }));
});

async function showStart(signal) {
  showQuery(null, null);
  at("title").textContent = facts.n_images ? "Start from one of these" : "This index is empty";
  at("status").textContent = facts.n_images
    ? "Or bring an image of your own: the nearest images are found by their binary codes."
    : "Add images with: ddsh index add INDEX IMAGES";
  at("legend").hidden = true;
  at("shuffle").hidden = facts.n_images <= N_SAMPLES;
  samples ??= await askSamples(N_SAMPLES);
  if (signal.aborted) return;
  fill(samples);
  document.title = "ddsh – search by image";
}

at("shuffle").addEventListener("click", () => {
  samples = null;
  show();
});

function fill(items) {
  const address = (item) => writeState({ ...state, id: item.id, upload: null });
  at("grid").replaceChildren(...items.map((item) => card(item, address(item), item.id === state.id)));
}

function summary(answer) {
  const count = answer.hits.length;
  const distances = answer.hits.map((hit) => hit.distance);
  const [least, most] = [Math.min(...distances), Math.max(...distances)];
  const away = least === most ? bits(most) : `${least} to ${bits(most)}`;
  const labelled = answer.label === null ? "" : ` with the label ${answer.label}`;
  const all = images(facts.n_images);
  return `${count.toLocaleString("en")} of ${all}${labelled}, ${away} away, found in ${time(answer.seconds)}.`;
}

function showAnswer(answer) {
  const found = answer.hits.length > 0;
  at("title").textContent = found ? "Nearest images" : "Nothing found";
  at("legend").hidden = !found;
  at("query-strip").replaceChildren(...(answer.bits ? [strip(answer.bits)] : []));
  fill(answer.hits);
  if (found) at("status").textContent = summary(answer);
  else showNothing(answer);
}

function showNothing(answer) {
  const which = answer.label === null ? "No image" : `No image with the label ${answer.label}`;
  const line =
    answer.radius === null ? "There is no image to be found." :
    answer.radius === 0 ? `${which} has the same code.` :
    `${which} is within ${bits(answer.radius)} of this one.`;
  at("status").textContent = `Nothing among ${images(facts.n_images)}, looked for in ${time(answer.seconds)}.`;
  at("nothing-line").textContent = line;
  at("nothing-advice").textContent = answer.radius === null ? "" : "Widen the radius, or see what is nearest.";
  at("widen").hidden = answer.radius === null;
  at("nothing").hidden = false;
}

async function showSearch(signal) {
  const upload = state.id === null ? uploads.get(state.upload) ?? null : null;
  if (state.id === null && upload === null) {
    await showStart(signal);
    complain(new Refused("The image of this search was not kept; choose it again.", 404));
    return;
  }
  at("shuffle").hidden = true;
  if (upload) showQuery(null, upload);
  const [item, answer] = await Promise.all([
    upload ? null : askItem(state.id, signal),
    search(state, upload?.file ?? null, signal),
  ]);
  if (item) showQuery(item, null);
  showAnswer(answer);
  document.title = `${upload ? "Your image" : item.labels.join(", ") || `Image ${item.id}`} – ddsh`;
}

// After a click the focus goes to the results; after a step back, to the image that was clicked.
function moveFocus() {
  const before = clicked.get(location.hash);
  const last = before && at("grid").querySelector(`[data-id="${before}"]`);
  if (focusNext) {
    at("results").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  } else if (last && [document.body, at("results")].includes(document.activeElement)) {
    last.focus();
  }
  focusNext = false;
}

at("grid").addEventListener("click", (event) => {
  const link = event.target.closest("a.card");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  clicked.set(location.hash, link.dataset.id);
  focusNext = true;
  if (link.getAttribute("href") === location.hash) moveFocus();
  else busy(true);
});

at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("results").focus();
});

async function show() {
  underway.abort();
  underway = new AbortController();
  const { signal } = underway;
  busy(true);
  clear();
  try {
    facts ?? (await begin());
    showControls();
    await (state.id === null && state.upload === null ? showStart(signal) : showSearch(signal));
    if (!signal.aborted) moveFocus();
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    fail(error);
  }
  busy(false);
}

function fail(error) {
  at("title").textContent = "That did not work";
  at("status").textContent = "";
  at("legend").hidden = true;
  at("grid").replaceChildren();
  focusNext = false;
  complain(error);
  if (!(error instanceof Refused)) throw error;
}

async function begin() {
  facts = await askFacts();
  showFacts();
  prepareControls();
}

addEventListener("hashchange", () => {
  state = readState(location.hash);
  show();
});

show();
