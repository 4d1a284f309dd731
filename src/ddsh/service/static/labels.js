// Editing: select images, give and take labels, delete and add images, undo. All of it needs the token.

import { getItem } from "./api.js";
import { Uploads } from "./added_images.js";
import {
  changeLabels,
  checkToken,
  getToken,
  removeItems,
  restoreItems,
  setToken,
  undoLabels,
} from "./changes.js";
import { createButton, createCard, createElement, formatImages, labelsOf, showLabels } from "./components.js";
import { Selection } from "./selection.js";
import { hasQuery, readState, writeState } from "./state.js";

const MAX_UNDO = 50;
const MAX_CHIPS = 12;
const KEYS =
  "Space selects an image, Shift a range, Ctrl+A all, Esc none; L gives a label, Delete deletes, Ctrl+Z undoes.";

const grid = document.getElementById("grid");
const undoable = []; // the last changes: { text, undo }
let info = null;
let refresh = null;

// Elements

const toggle = createButton("Label and edit images", () => setEditing(bar.hidden), { id: "edit-toggle" });
const tokenField = createElement("input", { type: "password", id: "token", required: true, autocomplete: "off" });
const tokenForm = createElement(
  "form",
  { className: "tools" },
  createElement("label", { htmlFor: "token", textContent: "Token of this service" }),
  tokenField,
  createElement("button", { textContent: "Allow changes", className: "primary" }),
);

const count = createElement("strong");
const selectAll = createButton("Select all", () => selection.selectAll());
const selectNone = createButton("None", () => selection.select([]));
const remove = createButton("Delete", () => deleteSelected());
const add = createButton("Add images", () => files.click());
const undo = createButton("Undo", () => undoLast(), { id: "undo" });
const done = createButton("Done", () => setEditing(false));

const labelField = createElement("input", {
  type: "text",
  id: "new-label",
  placeholder: "New label",
  maxLength: 200,
  autocomplete: "off",
});
labelField.setAttribute("list", "known-labels");
const knownLabels = createElement("datalist", { id: "known-labels" });
const give = createElement("button", { textContent: "Give label", className: "primary" });
const labelForm = createElement(
  "form",
  { className: "label-form" },
  createElement("label", { htmlFor: "new-label", className: "hidden", textContent: "New label" }),
  labelField,
  knownLabels,
  give,
);
const chips = createElement("ul", { className: "chips" });
chips.setAttribute("aria-label", "Labels of the selected images");

const files = createElement("input", { type: "file", accept: "image/*", multiple: true, hidden: true, id: "new-files" });
const uploads = new Uploads(showAdded);
const message = createElement("p", { className: "message" });
message.setAttribute("role", "status");
const tools = createElement(
  "div",
  { className: "all-tools" },
  createElement("div", { className: "tools" }, count, selectAll, selectNone, remove, add, undo, done),
  createElement("div", { className: "tools" }, labelForm, chips),
  uploads.element,
);
const bar = createElement("section", { id: "edit", hidden: true }, tokenForm, tools, message, files);
bar.setAttribute("aria-label", "Edit");

const selection = new Selection(grid, showSelection);

// Called when it is known that the service allows changes.
export function allowEditing(newInfo, onChange) {
  [info, refresh] = [newInfo, onChange];
  if (toggle.isConnected) return;
  document.getElementById("file").after(toggle);
  document.getElementById("results").append(bar);
  toggle.setAttribute("aria-pressed", false);
}

function setEditing(editing) {
  const locked = editing && getToken() === null;
  toggle.setAttribute("aria-pressed", editing);
  document.body.classList.toggle("is-editing", editing);
  [bar.hidden, tokenForm.hidden, tools.hidden] = [!editing, !locked, locked];
  selection.enable(editing && !locked);
  tell(editing && !locked ? KEYS : "");
  if (locked) tokenField.focus({ preventScroll: true }); // the bar is on the screen, its place in the page may not be
  else if (editing) showKnownLabels();
  else toggle.focus();
}

tokenForm.addEventListener("submit", async (event) => {
  event.preventDefault();
  setToken(tokenField.value.trim());
  if (!(await attempt(checkToken))) return;
  tokenField.value = "";
  setEditing(true);
  selectAll.focus({ preventScroll: true });
});

function tell(text, isError = false) {
  message.classList.toggle("is-error", isError);
  message.textContent = text;
}

// Run a change and return its result; null after an error, which is shown. A refused token is asked for again.
async function attempt(change) {
  try {
    return await change();
  } catch (error) {
    if (error.status === undefined) throw error;
    if (error.status === 401) {
      setToken(null);
      setEditing(true);
    }
    tell(error.message, true);
    return null;
  }
}

// After a change: show the message, offer to undo it, and read the statistics again.
async function changed(text, undoing = null) {
  if (undoing) undoable.push({ text, undo: undoing });
  if (undoable.length > MAX_UNDO) undoable.shift();
  tell(text);
  selection.update();
  info = (await attempt(refresh)) ?? info;
  showKnownLabels();
}

// Selection and labels

function showSelection() {
  const cards = selection.selectedCards();
  count.textContent = `${cards.length.toLocaleString("en")} selected`;
  for (const each of [selectNone, remove, give]) each.disabled = cards.length === 0;
  undo.disabled = undoable.length === 0;
  undo.title = undoable.at(-1)?.text ?? "";
  const counts = new Map();
  for (const label of cards.flatMap(labelsOf)) counts.set(label, (counts.get(label) ?? 0) + 1);
  const labels = [...counts].sort(([a, n], [b, m]) => m - n || a.localeCompare(b));
  const shown = labels.slice(0, MAX_CHIPS).map(([label, number]) => {
    const share = number < cards.length ? ` (${number} of ${cards.length})` : "";
    const take = createButton(`${label}${share} ×`, () => setLabels({ remove: [label] }), { className: "chip" });
    take.setAttribute("aria-label", `Take the label ${label} from ${formatImages(number)}`);
    return createElement("li", {}, take);
  });
  const more = labels.length - shown.length;
  if (more) shown.push(createElement("li", { textContent: `and ${more} more` }));
  chips.replaceChildren(...shown);
}

function showKnownLabels() {
  knownLabels.replaceChildren(...Object.keys(info.labels).map((value) => createElement("option", { value })));
}

const selectedIds = () => selection.selectedCards().map((card) => Number(card.dataset.id));

const findCard = (id) => grid.querySelector(`a.card[data-id="${id}"]`);

function showItems(items) {
  for (const { id, labels } of items) {
    const card = findCard(id);
    if (card) showLabels(card, labels);
  }
}

// Other people may have deleted images that are still shown here.
function hideMissing(text, missing) {
  for (const id of missing) findCard(id)?.parentElement.remove();
  return missing.length ? `${text} ${formatImages(missing.length)} had been deleted by someone else.` : text;
}

async function setLabels(change) {
  const ids = selectedIds();
  if (!ids.length) return;
  const result = await attempt(() => changeLabels(ids, change));
  if (result === null) return;
  showItems(result.items);
  const number = new Set(result.changes.flatMap((each) => each.ids)).size;
  const text =
    number === 0 ? "Nothing to change: the labels are so already." :
    change.add ? `Label ${change.add[0]} given to ${formatImages(number)}.` :
    `Label ${change.remove[0]} taken from ${formatImages(number)}.`;
  const undoing = async () => {
    showItems(await undoLabels(result.changes));
    return "";
  };
  await changed(hideMissing(text, result.missing), result.changes.length ? undoing : null);
}

labelForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const label = labelField.value.trim();
  if (!label || !selection.ids.size) return;
  labelField.value = "";
  setLabels({ add: [label] });
});

// Deleting, and undoing it or anything else

async function deleteSelected() {
  const cards = selection.selectedCards();
  if (!cards.length) return;
  const result = await attempt(() => removeItems(selectedIds()));
  if (result === null) return;
  const view = location.hash;
  const hasFocus = cards.some((card) => card.parentElement.contains(document.activeElement));
  // From the last to the first, so that the next card is there again when a card is put back before it.
  const places = cards.map((card) => [card, card.parentElement.nextElementSibling]).reverse();
  for (const [card] of places) card.parentElement.remove();
  if (hasFocus) (places[0][1]?.querySelector("a.card") ?? selection.cards().at(-1) ?? selectAll).focus();
  const undoing = async () => {
    const { items, missing } = await restoreItems(result.removed);
    const restored = new Set(items.map((item) => String(item.id)));
    for (const [card, next] of places) {
      if (location.hash !== view || !restored.has(card.dataset.id) || findCard(card.dataset.id)) continue;
      grid.insertBefore(card.parentElement, next?.parentElement === grid ? next : null);
    }
    showItems(items);
    selection.select(restored);
    return missing.length ? `${formatImages(missing.length)} can no longer be restored.` : "";
  };
  const text = `${formatImages(result.removed.length)} deleted.`;
  await changed(hideMissing(text, result.missing), result.removed.length ? undoing : null);
}

async function undoLast() {
  const last = undoable.pop();
  if (!last) return;
  undo.disabled = true;
  const problem = await attempt(last.undo);
  if (problem === null) undoable.push(last); // it can be tried again
  else await changed(problem || `Undone: ${last.text}`);
  showSelection();
}

// Adding images

function addImages(chosen) {
  if (uploads.busy) tell("Wait until the uploads are done, or stop them.", true);
  else if (chosen.length) uploads.add(chosen, info.max_upload_bytes);
}

files.addEventListener("change", () => {
  addImages([...files.files]);
  files.value = "";
});

bar.addEventListener("drop", (event) => {
  if (tools.hidden || !event.dataTransfer?.files.length) return;
  event.preventDefault();
  event.stopPropagation(); // elsewhere on the page, a dropped image is searched for
  document.body.classList.remove("dragging");
  addImages([...event.dataTransfer.files]);
});

// On the start page, new images come first and are selected, so that they can be labelled at once.
async function showAdded(ids, text, isError) {
  const state = readState(location.hash);
  if (ids.length && !hasQuery(state)) {
    const items = (await attempt(() => Promise.all(ids.map((id) => getItem(id))))) ?? [];
    const url = (item) => writeState({ ...state, id: item.id, query: null });
    grid.prepend(...items.map((item) => createCard(item, url(item))));
    selection.select(ids.map(String));
  }
  const undoing = async () => {
    hideMissing("", (await removeItems(ids)).removed);
    return "";
  };
  await changed(text, ids.length ? undoing : null);
  tell(text, isError);
}

// Keys that work wherever the focus is, except in a field

document.addEventListener("keydown", (event) => {
  if (!selection.enabled || event.altKey || event.shiftKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape" && event.target === labelField) (selection.selectedCards()[0] ?? selectAll).focus({ preventScroll: true });
    return;
  }
  const actions = event.ctrlKey || event.metaKey
    ? { a: () => selection.selectAll(), z: undoLast }
    : { Escape: () => selection.select([]), Delete: deleteSelected, l: () => labelField.focus({ preventScroll: true }) };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
});
