// What is searched for and how, as the part of the address behind the #.

export const USUAL_K = 24;

const number = (text, least) => {
  const value = Number(text);
  return text !== null && text.trim() !== "" && Number.isInteger(value) && value >= least ? value : null;
};

export function readState(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  return {
    id: number(fields.get("id"), 0),
    upload: number(fields.get("upload"), 1),
    k: number(fields.get("k"), 1) ?? USUAL_K,
    radius: number(fields.get("radius"), 0),
    label: fields.get("label") || null,
    rerank: fields.get("rerank") === "true",
  };
}

export function writeState(state) {
  const fields = new URLSearchParams();
  if (state.id !== null) fields.set("id", state.id);
  else if (state.upload !== null) fields.set("upload", state.upload);
  for (const [name, value] of arguments_(state)) {
    if (name !== "k" || value !== USUAL_K) fields.set(name, value);
  }
  return `#${fields}`;
}

export function toQuery(state) {
  const fields = new URLSearchParams([...arguments_(state)]);
  if (state.id !== null) fields.set("id", state.id);
  return fields.toString();
}

function* arguments_(state) {
  yield ["k", state.k];
  if (state.radius !== null) yield ["radius", state.radius];
  if (state.label !== null) yield ["label", state.label];
  if (state.rerank) yield ["rerank", "true"];
}
