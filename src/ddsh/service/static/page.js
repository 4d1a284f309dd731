// Search page. The fragment of the URL holds the search; the page is rendered from it.

import { RequestError, getInfo, getItem, getSamples, search } from "./api.js";
import {
  codeStrip,
  createCard,
  createElement,
  formatBits,
  formatImages,
  formatSize,
  formatTime,
  imageUrl,
  isTiny,
  labelsOf,
} from "./components.js";
import { allowEditing } from "./labels.js";
import { readState, writeState } from "./state.js";

const N_SAMPLES = 18;
const byId = (id) => document.getElementById(id);

const uploads = new Map(); // uploaded files by number, kept while the page is open
const clicked = new Map(); // by URL fragment: the id of the image clicked there
let info = null;
let samples = null;
let state = readState(location.hash);
let pending = new AbortController();
let focusResults = false;

const setBusy = (busy) => byId("results").setAttribute("aria-busy", busy);

function navigate(changes) {
  const next = writeState({ ...state, ...changes });
  if (next === writeState(state)) return;
  setBusy(true);
  location.hash = next;
}

// Query image

function searchWithFile(file) {
  if (!file) return;
  if (info && file.size > info.max_upload_bytes) {
    const limit = formatSize(info.max_upload_bytes);
    showError(new RequestError(`The file has ${formatSize(file.size)}; the limit is ${limit}.`, 413));
    return;
  }
  const upload = uploads.size + 1;
  uploads.set(upload, { file, url: URL.createObjectURL(file) });
  navigate({ id: null, upload });
}

byId("choose").addEventListener("click", () => byId("file").click());

byId("file").addEventListener("change", (event) => {
  searchWithFile(event.target.files[0]);
  event.target.value = "";
});

document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files].find((each) => each.type.startsWith("image/"));
  if (file) {
    event.preventDefault();
    searchWithFile(file);
  }
});

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

document.addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  document.body.classList.add("dragging");
});

document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dragging");
});

document.addEventListener("drop", (event) => {
  document.body.classList.remove("dragging");
  if (!hasFiles(event)) return;
  event.preventDefault();
  searchWithFile(event.dataTransfer.files[0]);
});

// Search options

function showOptions() {
  byId("k").value = state.k;
  byId("by").value = order();
  byId("radius").max = maxDistance();
  byId("radius").value = state.radius ?? maxDistance();
  showRadius();
  byId("label").value = state.label ?? "";
}

// The order that is used: an index with one code has no other.
function order() {
  if (info.n_bits && info.look_bits) return state.by;
  return info.n_bits ? "label" : "look";
}

function maxDistance() {
  return { both: info.max_distance, label: info.n_bits, look: info.look_bits }[order()];
}

// The distance of both codes is a weighted sum, which is not a number of bits.
const formatDistance = (distance) =>
  order() === "both" ? distance.toLocaleString("en") : formatBits(distance);

function selectedRadius() {
  const value = Number(byId("radius").value);
  return value >= maxDistance() ? null : value; // no code is farther away
}

function showRadius() {
  const radius = selectedRadius();
  const text = radius === null ? "any" : radius === 0 ? "same code" : `up to ${formatDistance(radius)}`;
  byId("radius-shown").textContent = text;
  byId("radius").setAttribute("aria-valuetext", text);
}

function initialiseOptions() {
  byId("k").max = info.max_k;
  byId("by-row").hidden = !(info.n_bits && info.look_bits);
  const labels = Object.entries(info.labels);
  const options = labels.map(([name, count]) =>
    createElement("option", { value: name, textContent: `${name} (${count.toLocaleString("en")})` }),
  );
  if (info.n_labels > labels.length) {
    // Too many labels for a menu: a text field that suggests the most frequent ones.
    const field = createElement("input", { type: "text", id: "label", placeholder: "any", autocomplete: "off" });
    byId("label").replaceWith(field);
    field.setAttribute("list", "labels");
    byId("labels")?.remove();
    byId("label-row").append(createElement("datalist", { id: "labels" }, ...options));
  } else {
    byId("label").replaceChildren(createElement("option", { value: "", textContent: "any" }), ...options);
  }
  byId("label-row").hidden = info.n_labels === 0;
}

byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("radius").addEventListener("input", showRadius);
byId("controls").addEventListener("change", () => {
  const k = Math.min(info.max_k, Math.max(1, Math.round(Number(byId("k").value)) || 1));
  const by = byId("by-row").hidden ? state.by : byId("by").value;
  // A radius in another order would mean something else.
  const radius = by === state.by ? selectedRadius() : null;
  navigate({ k, by, radius, label: byId("label").value || null });
  byId("k").value = k;
});
byId("remove-radius").addEventListener("click", () => {
  focusResults = true;
  navigate({ radius: null });
});

// Rendering

function showStatistics() {
  const statistics = [
    [info.n_images.toLocaleString("en"), info.n_images === 1 ? "image" : "images"],
    [info.n_bits + info.look_bits, info.n_bits + info.look_bits === 1 ? "bit each" : "bits each"],
    [formatSize(info.n_bytes), "of codes"],
    [info.n_codes.toLocaleString("en"), info.n_codes === 1 ? "distinct code" : "distinct codes"],
  ];
  byId("statistics").replaceChildren(
    ...statistics.map(([value, name]) =>
      createElement("div", {}, createElement("dt", { textContent: name }), createElement("dd", { textContent: value })),
    ),
  );
}

function showError(error) {
  byId("error").replaceChildren(createElement("span", { textContent: error.message }));
  if (error.canRetry) {
    const retry = createElement("button", { type: "button", textContent: "Try again" });
    retry.addEventListener("click", render);
    byId("error").append(retry);
  }
}

function showQuery(item, upload) {
  const hasQuery = item !== null || upload !== null;
  byId("query").classList.toggle("has-query", hasQuery);
  byId("caption").hidden = !hasQuery;
  byId("preview").hidden = !hasQuery;
  byId("no-preview").hidden = true;
  byId("query-strip").replaceChildren();
  byId("choose").textContent = hasQuery ? "Choose another image" : "Choose an image";
  if (!hasQuery) return;
  byId("preview").src = item ? imageUrl(item) : upload.url;
  byId("preview").alt = item ? `Query: image ${item.id}` : "Query: your image";
  byId("query-label").textContent = item ? item.labels.join(", ") || `Image ${item.id}` : "Your image";
  byId("query-name").textContent = item ? item.name : upload.file.name;
  byId("original").hidden = item === null;
  byId("original").href = item ? `images/${item.id}` : "#";
  byId("reset").href = writeState({ ...state, id: null, upload: null });
}

byId("preview").addEventListener("error", () => {
  byId("preview").hidden = true;
  byId("no-preview").hidden = false;
});

byId("preview").addEventListener("load", ({ target }) => {
  target.classList.toggle("tiny", isTiny({ width: target.naturalWidth, height: target.naturalHeight }));
});

async function showStart(signal) {
  showQuery(null, null);
  byId("title").textContent = info.n_images ? "Images of the index" : "This index is empty";
  byId("status").textContent = info.n_images
    ? "Click an image to find similar ones, or search with your own."
    : "Add images with: ddsh index add INDEX IMAGES";
  byId("legend").hidden = true;
  byId("shuffle").hidden = info.n_images <= N_SAMPLES;
  samples ??= await getSamples(N_SAMPLES);
  if (signal.aborted) return;
  showCards(samples);
  document.title = "ddsh – image search";
}

byId("shuffle").addEventListener("click", () => {
  samples = null;
  render();
});

function showCards(items) {
  const url = (item) => writeState({ ...state, id: item.id, upload: null });
  byId("grid").replaceChildren(...items.map((item) => createCard(item, url(item), item.id === state.id)));
}

function showResults(response) {
  const { hits, label, radius } = response;
  const [total, time] = [formatImages(info.n_images), formatTime(response.seconds)];
  byId("title").textContent = hits.length ? "Most similar images" : "No results";
  byId("legend").hidden = hits.length === 0;
  byId("query-strip").replaceChildren(...(response.bits ? [codeStrip(response.bits)] : []));
  showCards(hits);
  if (hits.length) {
    const distances = hits.map((hit) => hit.distance);
    const [least, most] = [Math.min(...distances), Math.max(...distances)];
    const range = least === most ? formatDistance(most) : `${least} to ${formatDistance(most)}`;
    const withLabel = label === null ? "" : ` with the label ${label}`;
    const count = hits.length.toLocaleString("en");
    byId("status").textContent = `${count} of ${total}${withLabel}, distance ${range}, found in ${time}.`;
    return;
  }
  const which = label === null ? "No image" : `No image with the label ${label}`;
  byId("status").textContent = `Searched ${total} in ${time}.`;
  byId("no-results-reason").textContent =
    radius === null ? "The index has no matching image." :
    radius === 0 ? `${which} has the same code.` :
    `${which} is within a distance of ${formatDistance(radius)}.`;
  byId("no-results-advice").textContent = radius === null ? "" : "Increase the radius, or show the nearest images.";
  byId("remove-radius").hidden = radius === null;
  byId("no-results").hidden = false;
}

async function showSearch(signal) {
  const upload = state.id === null ? uploads.get(state.upload) ?? null : null;
  if (state.id === null && upload === null) {
    await showStart(signal);
    showError(new RequestError("The uploaded image is no longer available; choose it again.", 404));
    return;
  }
  byId("shuffle").hidden = true;
  if (upload) showQuery(null, upload);
  const [item, response] = await Promise.all([
    upload ? null : getItem(state.id, signal),
    search(state, upload?.file ?? null, signal),
  ]);
  if (item) showQuery(item, null);
  showResults(response);
  document.title = `${upload ? "Your image" : item.labels.join(", ") || `Image ${item.id}`} – ddsh`;
}

// After a click, move the focus to the results; after the back button, to the image that was clicked.
function moveFocus() {
  const id = clicked.get(location.hash);
  const card = id && byId("grid").querySelector(`[data-id="${id}"]`);
  if (focusResults) {
    byId("results").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  } else if (card && [document.body, byId("results")].includes(document.activeElement)) {
    card.focus();
  }
  focusResults = false;
}

byId("grid").addEventListener("click", (event) => {
  const link = event.target.closest("a.card");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  clicked.set(location.hash, link.dataset.id);
  focusResults = true;
  if (link.getAttribute("href") === location.hash) moveFocus();
  else setBusy(true);
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("results").focus();
});

async function render() {
  pending.abort();
  pending = new AbortController();
  const { signal } = pending;
  setBusy(true);
  byId("error").replaceChildren();
  byId("no-results").hidden = true;
  try {
    if (info === null) {
      info = await getInfo();
      showStatistics();
      initialiseOptions();
      if (!info.read_only) allowEditing(info, refresh);
    }
    showOptions();
    await (state.id === null && state.upload === null ? showStart(signal) : showSearch(signal));
    if (!signal.aborted) moveFocus();
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    byId("title").textContent = "Search failed";
    byId("status").textContent = "";
    byId("legend").hidden = true;
    byId("grid").replaceChildren();
    focusResults = false;
    showError(error);
    if (!(error instanceof RequestError)) throw error;
  }
  setBusy(false);
}

// After a change of labels or images: new statistics and menus; the results stay as they are.
async function refresh() {
  samples = null;
  info = await getInfo();
  showStatistics();
  initialiseOptions();
  showOptions();
  const own = byId("grid").querySelector(".card.is-query");
  if (own) byId("query-label").textContent = labelsOf(own).join(", ") || `Image ${own.dataset.id}`;
  return info;
}

addEventListener("hashchange", () => {
  state = readState(location.hash);
  render();
});

render();
