// Changes of the index: requests with the token, and uploads with progress.

import { RequestError, request } from "./api.js";

const TOKEN = "ddsh-token";
const MAX_IDS = 1000; // images that one request changes
const MAX_TRIES = 6;

// The token is kept while the tab is open.
export const getToken = () => sessionStorage.getItem(TOKEN);

export function setToken(token) {
  if (token === null) sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, token);
}

// Try again while another process is changing the index; repeating a change is harmless.
async function persist(attempt) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (error.status !== 503 || tries === MAX_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500 * tries));
    }
  }
}

function post(url, body) {
  const headers = { Authorization: `Bearer ${getToken()}`, "Content-Type": "application/json" };
  return persist(() => request(url, { method: "POST", headers, body: JSON.stringify(body) }));
}

// Send many ids in several requests, and join the lists of the responses.
async function postInParts(url, ids, makeBody) {
  const joined = {};
  for (let start = 0; start < ids.length; start += MAX_IDS) {
    const part = await post(url, makeBody(ids.slice(start, start + MAX_IDS)));
    for (const [name, values] of Object.entries(part)) joined[name] = [...(joined[name] ?? []), ...values];
  }
  return joined;
}

export const checkToken = () => post("items/labels", { changes: [] });

// Give and take labels. The response has what really changed, which is enough to undo it.
export const changeLabels = (ids, { add = [], remove = [] }) =>
  postInParts("items/labels", ids, (part) => ({ changes: [{ ids: part, add, remove }] }));

// Undo a change of labels, and return the labels that the images have then.
export async function undoLabels(changes) {
  const items = [];
  for (const { ids, add, remove } of [...changes].reverse()) {
    items.push(...(await changeLabels(ids, { add: remove, remove: add })).items);
  }
  return items;
}

export const removeItems = (ids) => postInParts("items/remove", ids, (part) => ({ ids: part }));

export const restoreItems = (ids) => postInParts("items/restore", ids, (part) => ({ ids: part }));

// Upload one image. fetch does not tell how much was sent, XMLHttpRequest does.
function send(file, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const fail = (text, status) => reject(new RequestError(text, status));
    const sending = new XMLHttpRequest();
    sending.open("POST", "items");
    sending.setRequestHeader("Authorization", `Bearer ${getToken()}`);
    sending.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    sending.responseType = "json";
    sending.upload.addEventListener("progress", ({ loaded, total }) => onProgress(loaded / Math.max(1, total)));
    sending.addEventListener("error", () => fail("The service cannot be reached.", 0));
    sending.addEventListener("abort", () => fail("Stopped.", 0));
    sending.addEventListener("load", () => {
      const { status, response } = sending;
      if (status < 300) resolve(response);
      else fail(response?.error ?? `The service responded with status ${status}.`, status);
    });
    if (signal.aborted) fail("Stopped.", 0);
    else sending.send(file);
    signal.addEventListener("abort", () => sending.abort());
  });
}

export const addItem = (file, onProgress, signal) => persist(() => send(file, onProgress, signal));
