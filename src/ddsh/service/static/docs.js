// What openapi.json says, to be read.

import { element } from "./components.js";

const place = document.getElementById("operations");
const base = new URL(".", location.href).href.replace(/\/$/, "");

const resolve = (api, schema) =>
  schema?.$ref ? schema.$ref.split("/").slice(1).reduce((part, name) => part[name], api) : schema ?? {};

function kind(api, schema) {
  const found = resolve(api, schema);
  if (found.anyOf) return found.anyOf.map((each) => kind(api, each)).filter((name) => name !== "null").join(" or ");
  if (found.type === "array") return `list of ${kind(api, found.items)}`;
  const limits = [
    found.minimum !== undefined ? `${found.minimum} or more` : "",
    found.maximum !== undefined && found.maximum < 2 ** 53 ? `${found.maximum} at most` : "",
  ].filter(Boolean);
  const name = found.properties ? found.title : found.const ? `"${found.const}"` : found.type;
  return [name, ...limits].join(", ");
}

function table(rows) {
  const cell = (content) => element("td", {}, content);
  return element("table", {}, element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
}

const code = (text) => element("code", { textContent: text });

function argumentsOf(api, operation) {
  return (operation.parameters ?? []).map((each) => {
    const usual = each.schema.default ?? null;
    const notes = each.required ? "required" : usual === null ? "" : `usually ${JSON.stringify(usual)}`;
    const about = each.description ?? each.schema.description ?? "";
    return [code(each.name), kind(api, each.schema), [about, notes && `(${notes})`].filter(Boolean).join(" ")];
  });
}

function answerOf(api, operation) {
  const [status, answer] = Object.entries(operation.responses).find(([name]) => name.startsWith("2"));
  const [media, content] = Object.entries(answer.content ?? {})[0] ?? ["", {}];
  let schema = resolve(api, content.schema);
  const several = schema.type === "array";
  if (several) schema = resolve(api, schema.items);
  const fields = Object.entries(schema.properties ?? {});
  return {
    title: `Answer ${status}${media ? `, ${media}` : ""}${several ? ", a list of" : ""}`,
    about: schema.description ?? "",
    rows: fields.flatMap(([name, field]) => fieldRows(api, name, field)),
  };
}

function fieldRows(api, name, field) {
  const inner = field.type === "array" ? Object.entries(resolve(api, field.items).properties ?? {}) : [];
  return [
    [code(name), kind(api, field)],
    ...inner.map(([each, schema]) => [code(`${name}[].${each}`), kind(api, schema)]),
  ];
}

function example(method, path, operation) {
  const required = (operation.parameters ?? []).filter((each) => each.required && each.in === "query");
  const query = required.map((each) => `${each.name}=17`).join("&");
  const address = `${base}${path.replace("{id}", "17")}${query && `?${query}`}`;
  const parts = ["curl"];
  if (operation.security) parts.push('-H "Authorization: Bearer $DDSH_TOKEN"');
  if (operation.requestBody) parts.push("--data-binary @photo.jpg");
  else if (method !== "get") parts.push(`-X ${method.toUpperCase()}`);
  return [...parts, `'${address}'`].join(" ");
}

function draw(api, path, method, operation) {
  const answer = answerOf(api, operation);
  const rows = argumentsOf(api, operation);
  const title = (text) => element("h3", { textContent: text });
  const body = element("div", { className: "body" }, element("pre", { textContent: example(method, path, operation) }));
  if (operation.requestBody) {
    const kinds = Object.keys(operation.requestBody.content).join(" or ");
    body.append(element("p", { textContent: `Body: ${kinds} (field “image”).` }));
  }
  if (rows.length) body.append(title("Arguments"), table(rows));
  body.append(title(answer.title));
  if (answer.rows.length) body.append(element("p", { textContent: answer.about }), table(answer.rows));
  const summary = element(
    "summary",
    {},
    element("span", { className: "method", textContent: method.toUpperCase() }),
    code(path),
    element("span", { className: "about", textContent: operation.description }),
  );
  return element("details", {}, summary, body);
}

const api = await (await fetch("openapi.json")).json();
let tag = null;
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    if (operation.tags[0] !== tag) {
      tag = operation.tags[0];
      place.append(element("h2", { textContent: tag }));
    }
    place.append(draw(api, path, method, operation));
  }
}
