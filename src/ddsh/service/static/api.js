// Client of the HTTP API. URLs are relative, so that the page also works below a path prefix.

import { filter, toQuery } from "./state.js";

export class RequestError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
    this.canRetry = status === 0 || status === 408 || status >= 500;
  }
}

export async function request(url, options = {}) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The service cannot be reached.", 0);
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new RequestError(content.error ?? `The service responded with status ${response.status}.`, response.status);
  }
  return content;
}

export const getInfo = () => request("info");

// Random images among those that the labels and words of the state allow.
export const getSamples = (state, n, signal) =>
  request(`samples?${new URLSearchParams([...filter(state), ["n", n]])}`, { signal });

export const getItem = (id, signal) => request(`items/${id}`, { signal });

// Search with the query of the state, or with a file.
export function search(state, { k, offset = 0, file = null, signal }) {
  const url = `search?${toQuery(state, k, offset)}`;
  if (file === null) return request(url, { signal });
  const headers = { "Content-Type": file.type || "application/octet-stream" };
  return request(url, { method: "POST", body: file, headers, signal });
}
