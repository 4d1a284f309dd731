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
  neighbourOf,
} from "./components.js";
import { allowEditing } from "./labels.js";
import { filter, hasQuery, readState, writeState } from "./state.js";
import { findUpload, keepUpload } from "./uploaded_images.js";

const N_SAMPLES = 18;
const PAGE = 48; // results that are fetched at a time
const byId = (id) => document.getElementById(id);

const clicked = new Map(); // by URL fragment: the id of the image clicked there
let info = null;
let samples = null;
let state = readState(location.hash);
let pending = new AbortController();
let focusResults = false;
let first = null; // the response to an upload, which is shown without asking again
let results = null; // what is shown: { hits, response, nShown, showsApart, loading }

const setBusy = (busy) => byId("results").setAttribute("aria-busy", busy);

function navigate(changes) {
  const next = { ...state, ...changes };
  if (writeState(next) === writeState(state)) return;
  setBusy(true);
  state = next; // at once: another change may come before the event of this one
  location.hash = writeState(next);
}

// Query image

async function searchWithFile(file) {
  if (!file || !info) return;
  if (file.size > info.max_upload_bytes) {
    const limit = formatSize(info.max_upload_bytes);
    showError(new RequestError(`The file has ${formatSize(file.size)}; the limit is ${limit}.`, 413));
    return;
  }
  const signal = startRendering();
  showQuery(null, { name: file.name, url: URL.createObjectURL(file) });
  try {
    const response = await search({ ...state, id: null, query: null }, { k: PAGE, file, signal });
    await keepUpload(response.query, file);
    if (signal.aborted) return;
    first = response;
    if (state.query === response.query) await render();
    else navigate({ id: null, query: response.query });
  } catch (error) {
    showFailure(error, signal, () => searchWithFile(file));
  }
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
  byId("by").value = order();
  byId("radius").max = maxDistance();
  byId("radius").value = state.radius ?? maxDistance();
  byId("least").value = cutOff() ?? 0;
  showText(state.text ?? "");
  byId("label").value = "";
  byId("all-row").hidden = state.labels.length < 2;
  byId("all-labels").checked = state.allLabels;
  const chips = state.labels.map((label) => {
    const chip = createElement("button", { type: "button", className: "chip", textContent: `${label} ×` });
    chip.setAttribute("aria-label", `Search without the label ${label}`);
    chip.addEventListener("click", () => navigate({ labels: state.labels.filter((each) => each !== label) }));
    return createElement("li", {}, chip);
  });
  byId("label-chips").replaceChildren(...chips);
  // Without a query there is nothing to order.
  byId("by-row").hidden = !(hasQuery(state) && info.n_bits && info.look_bits);
  byId("least-row").hidden = !(hasQuery(state) && hasSimilarities());
  byId("radius-row").hidden = !hasQuery(state) || (hasSimilarities() && state.radius === null);
  showRanges();
}

// Words that are being typed stay while other options are shown anew: only another search replaces them.
function showText(text) {
  const field = byId("text");
  if (field.defaultValue !== text) field.value = field.defaultValue = text;
}

// Similarities without labels are those of looks.
const hasSimilarities = () => info.similarity === "labels" || (info.similarity === "copies" && order() === "look");

const cutOff = () => (hasSimilarities() ? state.least ?? info.cut_off : null);

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

function showRanges() {
  const radius = selectedRadius();
  const least = Number(byId("least").value);
  const texts = {
    radius: radius === null ? "any" : radius === 0 ? "same code" : `up to ${formatDistance(radius)}`,
    least: least === 0 ? "any" : `${least} % or more`,
  };
  for (const [name, text] of Object.entries(texts)) {
    byId(`${name}-shown`).textContent = text;
    byId(name).setAttribute("aria-valuetext", text);
  }
}

function initialiseOptions() {
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
    field.after(createElement("datalist", { id: "labels" }, ...options));
  } else {
    byId("label").replaceChildren(createElement("option", { value: "", textContent: "any" }), ...options);
  }
  byId("label-row").hidden = info.n_labels === 0;
}

byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("radius").addEventListener("input", showRanges);
byId("least").addEventListener("input", showRanges);
byId("controls").addEventListener("change", () => {
  const by = byId("by-row").hidden ? state.by : byId("by").value;
  const least = Number(byId("least").value);
  const label = byId("label").value.trim();
  navigate({
    by,
    // A radius in another order would mean something else.
    radius: by !== state.by ? null : byId("radius-row").hidden ? state.radius : selectedRadius(),
    least: hasSimilarities() && least !== cutOff() ? least : state.least,
    labels: label && !state.labels.includes(label) ? [...state.labels, label] : state.labels,
    allLabels: byId("all-labels").checked,
    text: byId("text").value.trim() || null,
  });
  byId("label").value = "";
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

function showError(error, retry = render) {
  byId("error").replaceChildren(createElement("span", { textContent: error.message }));
  if (error.canRetry) {
    const button = createElement("button", { type: "button", textContent: "Try again" });
    button.addEventListener("click", () => retry());
    byId("error").append(button);
  }
}

function showQuery(item, upload) {
  const isShown = item !== null || upload !== null;
  byId("query").classList.toggle("has-query", isShown);
  byId("caption").hidden = !isShown;
  byId("preview").hidden = !isShown || upload?.url === null;
  byId("no-preview").hidden = upload?.url !== null; // undefined without an upload
  byId("query-strip").replaceChildren();
  byId("choose").textContent = isShown ? "Choose another image" : "Choose an image";
  if (!isShown) return;
  const url = item ? imageUrl(item) : upload.url;
  if (url) byId("preview").src = url;
  byId("preview").alt = item ? `Query: image ${item.id}` : "Query: your image";
  byId("query-label").textContent = item ? item.labels.join(", ") || `Image ${item.id}` : "Your image";
  byId("query-name").textContent = item ? item.name : upload.name;
  byId("original").hidden = item === null;
  byId("original").href = item ? `images/${item.id}` : "#";
  byId("reset").href = writeState({ ...state, id: null, query: null });
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
  byId("legend").hidden = true;
  const wanted = JSON.stringify(filter(state));
  if (samples?.wanted !== wanted) samples = { wanted, items: await getSamples(state, N_SAMPLES + 1, signal) };
  if (signal.aborted) return;
  const { items } = samples;
  byId("title").textContent =
    items.length ? "Images of the index" : info.n_images ? "No images" : "This index is empty";
  byId("status").textContent =
    items.length ? "Click an image to find similar ones, or search with your own." :
    info.n_images ? `No image${describeFilter()} is in the index.` : "Add images with: ddsh index add INDEX IMAGES";
  byId("shuffle").hidden = items.length <= N_SAMPLES;
  showCards(items.slice(0, N_SAMPLES));
  document.title = "ddsh – image search";
}

byId("shuffle").addEventListener("click", () => {
  samples = null;
  render();
});

const cardUrl = (item) => writeState({ ...state, id: item.id, query: null });

function showCards(items) {
  results = null;
  byId("grid").replaceChildren(...items.map((item) => createCard(item, cardUrl(item))));
}

// Show the results that are known and not shown yet, up to the first that is not similar enough.
function showHits() {
  const { hits, response } = results;
  const least = cutOff();
  const isApart = (hit) => least !== null && hit.similarity !== null && hit.similarity < least;
  const found = hits.findIndex(isApart);
  const nSimilar = found < 0 ? hits.length : found;
  const end = results.showsApart ? hits.length : nSimilar;
  const cards = [];
  for (let place = results.nShown; place < end; place += 1) {
    if (place === nSimilar) {
      cards.push(createElement("li", { className: "separator", textContent: `Less than ${least} % similar` }));
    }
    cards.push(createCard(hits[place], cardUrl(hits[place])));
  }
  byId("grid").append(...cards);
  results.nShown = Math.max(results.nShown, end);
  const hidesSome = nSimilar < hits.length && !results.showsApart;
  byId("apart").hidden = !hidesSome;
  byId("show-more").hidden = hidesSome || !response.has_more;
  const isAlone = hits.slice(0, nSimilar).every((hit) => hit.match !== null);
  if (hidesSome) byId("apart-reason").textContent =
    nSimilar === 0 ? `Nothing here is like this image: the nearest is ${Math.round(hits[0].similarity)} % similar.` :
    isAlone ? `No other image is ${least} % similar.` :
    `All other images are less than ${least} % similar.`;
  byId("show-apart").textContent = nSimilar === 0 ? "Show the nearest images" : "Show less similar images";
  byId("title").textContent =
    hits.length === 0 ? "No results" : nSimilar === 0 ? "Nothing similar" : "Most similar images";
  byId("legend").hidden = results.nShown === 0;
  const [total, time] = [formatImages(info.n_images), formatTime(response.seconds)];
  if (results.nShown === 0) {
    byId("status").textContent = `Searched ${total} in ${time}.`;
    return;
  }
  const distances = hits.slice(0, results.nShown).map((hit) => hit.distance);
  const [nearest, furthest] = [Math.min(...distances), Math.max(...distances)];
  const range = nearest === furthest ? formatDistance(furthest) : `${nearest} to ${formatDistance(furthest)}`;
  const count = results.nShown.toLocaleString("en");
  byId("status").textContent = `${count} of ${total}${describeFilter()}, distance ${range}, found in ${time}.`;
}

function describeFilter() {
  const joined = state.labels.join(state.allLabels ? " and " : " or ");
  const labels = joined && ` with the ${state.labels.length > 1 ? "labels" : "label"} ${joined}`;
  return labels + (state.text === null ? "" : ` with “${state.text}”`);
}

function showResults(response) {
  const { hits, radius } = response;
  byId("query-strip").replaceChildren(...(response.bits ? [codeStrip(response.bits)] : []));
  byId("grid").replaceChildren();
  results = { hits, response, nShown: 0, showsApart: false, loading: false };
  showHits();
  if (hits.length) return;
  const which = `No image${describeFilter()}`;
  byId("no-results-reason").textContent =
    radius === 0 ? `${which} has the same code.` :
    radius !== null ? `${which} is within a distance of ${formatDistance(radius)}.` :
    describeFilter() ? `${which} is in the index.` : "The index has no matching image.";
  byId("no-results-advice").textContent = radius === null ? "" : "Increase the radius, or show the nearest images.";
  byId("remove-radius").hidden = radius === null;
  byId("no-results").hidden = false;
}

// Endless scroll: the next page is fetched when the end comes into view.
async function showMore() {
  if (results === null || results.loading || !results.response.has_more || byId("show-more").hidden) return;
  const shown = results;
  const { signal } = pending;
  shown.loading = true;
  try {
    const next = await search(state, { k: PAGE, offset: shown.hits.length, signal });
    if (results !== shown) return;
    const known = new Set(shown.hits.map((hit) => hit.id)); // the index may have changed between two pages
    shown.hits.push(...next.hits.filter((hit) => !known.has(hit.id)));
    shown.response = { ...shown.response, has_more: next.has_more && next.hits.length > 0 };
    showHits();
  } catch (error) {
    if (error.name !== "AbortError") showError(error);
  } finally {
    shown.loading = false;
  }
  if (isNear(byId("more"))) await showMore();
}

const isNear = (element) => element.getBoundingClientRect().top < innerHeight + 600;

new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && showMore(), {
  rootMargin: "600px",
}).observe(byId("more"));

byId("show-more").addEventListener("click", showMore);

byId("show-apart").addEventListener("click", () => {
  const place = byId("grid").children.length;
  results.showsApart = true;
  showHits();
  byId("grid").children[place + 1]?.querySelector("a.card").focus();
  showMore();
});

async function showSearch(signal) {
  byId("shuffle").hidden = true;
  const upload = state.id === null ? findUpload(state.query) ?? { name: "", url: null } : null;
  if (upload) showQuery(null, upload);
  const response = first?.query === state.query && state.id === null ? first : null;
  first = null;
  const [item, found] = await Promise.all([
    upload ? null : getItem(state.id, signal),
    response ?? search(state, { k: PAGE, signal }),
  ]);
  if (item) showQuery(item, null);
  showResults(found);
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

// The arrow keys move between images; from the title of the results, right and down lead to the first one.
document.addEventListener("keydown", (event) => {
  if (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || !event.key.startsWith("Arrow")) return;
  const card = event.target.closest?.("#grid li")?.querySelector("a.card");
  const cards = [...byId("grid").querySelectorAll("a.card")];
  const isTitle = event.target === byId("results") && ["ArrowRight", "ArrowDown"].includes(event.key);
  const next = card ? neighbourOf(cards, card, event.key) : isTitle ? cards[0] : null;
  if (!next) return;
  event.preventDefault();
  next.focus();
});

function startRendering() {
  pending.abort();
  pending = new AbortController();
  setBusy(true);
  byId("error").replaceChildren();
  byId("no-results").hidden = true;
  byId("apart").hidden = true;
  byId("show-more").hidden = true;
  return pending.signal;
}

function showFailure(error, signal, retry = render) {
  if (error.name === "AbortError" || signal.aborted) return;
  byId("title").textContent = "Search failed";
  byId("status").textContent = "";
  byId("legend").hidden = true;
  showCards([]);
  focusResults = false;
  showError(error, retry);
  setBusy(false);
  if (!(error instanceof RequestError)) throw error;
}

async function render() {
  const signal = startRendering();
  try {
    if (info === null) {
      info = await getInfo();
      showStatistics();
      initialiseOptions();
      if (!info.read_only) allowEditing(info, refresh);
    }
    showOptions();
    await (hasQuery(state) ? showSearch(signal) : showStart(signal));
    if (!signal.aborted) moveFocus();
  } catch (error) {
    showFailure(error, signal);
    return;
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
