// What the page asks the service. Addresses are relative, so that it also works below another path.

import { toQuery } from "./state.js";

export class Refused extends Error {
  constructor(line, status) {
    super(line);
    this.mayTryAgain = status === 0 || status === 408 || status >= 500;
  }
}

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The service cannot be reached.", 0);
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(content.error ?? `The service answered with status ${answer.status}.`, answer.status);
  return content;
}

export const askFacts = () => ask("info");

export const askSamples = (n) => ask(`samples?n=${n}`);

export const askItem = (id, signal) => ask(`items/${id}`, { signal });

export function search(state, file, signal) {
  if (file === null) return ask(`search?${toQuery(state)}`, { signal });
  const headers = { "Content-Type": file.type || "application/octet-stream" };
  return ask(`search?${toQuery(state)}`, { method: "POST", body: file, headers, signal });
}
