// Uploads of several images at once, with the progress of each.

import { addItem } from "./changes.js";
import { createButton, createElement, formatSize } from "./components.js";

const PARALLEL = 2;

export class Uploads {
  // onDone is called with the ids of new images and one line about all uploads.
  constructor(onDone) {
    this.onDone = onDone;
    this.stopper = null; // while uploads are under way
    this.failed = [];
    this.title = createElement("span");
    this.bar = createElement("progress", { max: 1, value: 0 });
    this.bar.setAttribute("aria-label", "All uploads");
    this.stop = createButton("Stop", () => this.stopper.abort());
    this.retry = createButton("Try again", () => this.add(this.failed));
    this.close = createButton("Close", () => (this.element.hidden = true));
    this.list = createElement("ol");
    const head = createElement("div", { className: "tools" }, this.title, this.bar, this.stop, this.retry, this.close);
    this.element = createElement("div", { className: "uploads", id: "uploads", hidden: true }, head, this.list);
    addEventListener("beforeunload", (event) => this.busy && event.preventDefault());
  }

  get busy() {
    return this.stopper !== null;
  }

  async add(files, maxBytes = this.maxBytes) {
    this.maxBytes = maxBytes;
    this.stopper = new AbortController();
    this.failed = [];
    this.element.hidden = false;
    [this.stop.hidden, this.retry.hidden, this.close.hidden] = [false, true, true];
    this.rows = files.map((file) => new Row(file));
    this.list.replaceChildren(...this.rows.map((row) => row.element));
    this.show();
    const waiting = [...this.rows];
    const work = async () => {
      for (let row = waiting.shift(); row; row = waiting.shift()) {
        await row.upload(this.maxBytes, this.stopper.signal, () => this.show());
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, work));
    this.stopper = null;
    const having = (outcome) => this.rows.filter((row) => row.outcome === outcome);
    this.failed = having("failed").map((row) => row.file);
    [this.stop.hidden, this.retry.hidden, this.close.hidden] = [true, this.failed.length === 0, false];
    const [added, known] = [having("added"), having("there already")];
    const parts = [added.length === 1 ? "1 image added" : `${added.length} images added`];
    if (known.length) parts.push(`${known.length} there already`);
    if (this.failed.length) parts.push(`${this.failed.length} failed`);
    await this.onDone(added.map((row) => row.id), `${parts.join(", ")}.`, this.failed.length > 0);
  }

  show() {
    const finished = this.rows.filter((row) => row.outcome !== null).length;
    this.title.textContent = `${finished} of ${this.rows.length} uploads`;
    this.bar.value = this.rows.reduce((sum, row) => sum + row.progress.value, 0) / this.rows.length;
  }
}

class Row {
  constructor(file) {
    this.file = file;
    this.outcome = null; // "added", "there already" or "failed"
    this.id = null;
    this.progress = createElement("progress", { max: 1, value: 0 });
    this.progress.setAttribute("aria-label", `Upload of ${file.name}`);
    this.state = createElement("span", { className: "state", textContent: "waiting" });
    const name = createElement("span", { className: "file", textContent: file.name });
    this.element = createElement("li", {}, name, this.progress, this.state);
  }

  async upload(maxBytes, signal, onChange) {
    const { file, progress, state } = this;
    try {
      if (file.size > maxBytes) throw new Error(`${formatSize(file.size)}; the limit is ${formatSize(maxBytes)}`);
      state.textContent = "sending";
      const onProgress = (share) => {
        progress.value = share;
        if (share === 1) state.textContent = "encoding";
        onChange();
      };
      const response = await addItem(file, onProgress, signal);
      this.id = response.id;
      this.outcome = response.new ? "added" : "there already";
      state.replaceChildren(createElement("a", { href: `#id=${this.id}`, textContent: this.outcome }));
    } catch (error) {
      this.outcome = "failed";
      this.element.classList.add("is-error");
      state.textContent = error.message;
    }
    progress.value = 1;
    onChange();
  }
}
