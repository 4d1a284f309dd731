// State of a search, stored in the fragment of the URL.

export const DEFAULT_K = 24;
export const ORDERS = ["both", "label", "look"];

const parseInteger = (text, minimum) => {
  const value = Number(text);
  return text !== null && text.trim() !== "" && Number.isInteger(value) && value >= minimum ? value : null;
};

export function readState(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  return {
    id: parseInteger(fields.get("id"), 0),
    upload: parseInteger(fields.get("upload"), 1),
    k: parseInteger(fields.get("k"), 1) ?? DEFAULT_K,
    radius: parseInteger(fields.get("radius"), 0),
    label: fields.get("label") || null,
    by: ORDERS.includes(fields.get("by")) ? fields.get("by") : ORDERS[0],
  };
}

export function writeState(state) {
  const fields = new URLSearchParams();
  if (state.id !== null) fields.set("id", state.id);
  else if (state.upload !== null) fields.set("upload", state.upload);
  for (const [name, value] of parameters(state)) {
    if (name !== "k" || value !== DEFAULT_K) fields.set(name, value);
  }
  return `#${fields}`;
}

export function toQuery(state) {
  const fields = new URLSearchParams([...parameters(state)]);
  if (state.id !== null) fields.set("id", state.id);
  return fields.toString();
}

function* parameters(state) {
  yield ["k", state.k];
  if (state.radius !== null) yield ["radius", state.radius];
  if (state.label !== null) yield ["label", state.label];
  if (state.by !== ORDERS[0]) yield ["by", state.by];
}
