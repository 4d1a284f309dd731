// State of a search, stored in the fragment of the URL.

export const ORDERS = ["both", "label", "look"];

const parseInteger = (text, minimum) => {
  const value = Number(text);
  return text !== null && text.trim() !== "" && Number.isInteger(value) && value >= minimum ? value : null;
};

export function readState(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const least = parseInteger(fields.get("least"), 0);
  return {
    id: parseInteger(fields.get("id"), 0),
    query: fields.get("query") || null, // the codes of an uploaded image
    radius: parseInteger(fields.get("radius"), 0),
    least: least !== null && least <= 100 ? least : null, // similarity in per cent; null is the service's cut-off
    labels: [...new Set(fields.getAll("label").filter(Boolean))],
    allLabels: fields.get("all_labels") === "true",
    text: fields.get("text") || null,
    by: ORDERS.includes(fields.get("by")) ? fields.get("by") : ORDERS[0],
  };
}

export const hasQuery = (state) => state.id !== null || state.query !== null;

export function writeState(state) {
  const fields = new URLSearchParams(parameters(state));
  if (state.least !== null) fields.set("least", state.least);
  return `#${fields}`;
}

// The parameters of the API. Results below the cut-off are set apart by the page, so it is not among them.
export const toQuery = (state, k, offset) => new URLSearchParams([...parameters(state), ["k", k], ["offset", offset]]);

// The parameters that say which images may be shown.
export function filter(state) {
  const fields = state.labels.map((label) => ["label", label]);
  if (state.allLabels && state.labels.length > 1) fields.push(["all_labels", true]);
  if (state.text !== null) fields.push(["text", state.text]);
  return fields;
}

function parameters(state) {
  const fields = [];
  if (state.id !== null) fields.push(["id", state.id]);
  else if (state.query !== null) fields.push(["query", state.query]);
  if (state.radius !== null) fields.push(["radius", state.radius]);
  fields.push(...filter(state));
  if (state.by !== ORDERS[0]) fields.push(["by", state.by]);
  return fields;
}
