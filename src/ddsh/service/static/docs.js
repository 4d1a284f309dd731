// Documentation of the API, generated from openapi.json.

import { createElement } from "./components.js";

const container = document.getElementById("operations");
const base = new URL(".", location.href).href.replace(/\/$/, "");

const resolve = (api, schema) =>
  schema?.$ref ? schema.$ref.split("/").slice(1).reduce((part, name) => part[name], api) : schema ?? {};

function typeName(api, schema) {
  const resolved = resolve(api, schema);
  if (resolved.anyOf) {
    return resolved.anyOf.map((each) => typeName(api, each)).filter((name) => name !== "null").join(" or ");
  }
  if (resolved.type === "array") return `list of ${typeName(api, resolved.items)}`;
  const limits = [
    resolved.minimum !== undefined ? `min. ${resolved.minimum}` : "",
    resolved.maximum !== undefined && resolved.maximum < 2 ** 53 ? `max. ${resolved.maximum}` : "",
  ].filter(Boolean);
  const name = resolved.properties ? resolved.title : resolved.const ? `"${resolved.const}"` : resolved.type;
  return [name, ...limits].join(", ");
}

function createTable(rows) {
  const cell = (content) => createElement("td", {}, content);
  const body = createElement("tbody", {}, ...rows.map((row) => createElement("tr", {}, ...row.map(cell))));
  return createElement("table", {}, body);
}

const code = (text) => createElement("code", { textContent: text });

function parameterRows(api, operation) {
  return (operation.parameters ?? []).map((each) => {
    const defaultValue = each.schema.default ?? null;
    const note = each.required ? "required" : defaultValue === null ? "" : `default ${JSON.stringify(defaultValue)}`;
    const description = each.description ?? each.schema.description ?? "";
    return [code(each.name), typeName(api, each.schema), [description, note && `(${note})`].filter(Boolean).join(" ")];
  });
}

function fieldRows(api, properties) {
  const row = (name, field) => [code(name), typeName(api, field), field.description ?? ""];
  return Object.entries(properties).flatMap(([name, field]) => {
    const inner = field.type === "array" ? Object.entries(resolve(api, field.items).properties ?? {}) : [];
    return [row(name, field), ...inner.map(([each, innerField]) => row(`${name}[].${each}`, innerField))];
  });
}

function describeResponse(api, operation) {
  const [status, response] = Object.entries(operation.responses).find(([name]) => name.startsWith("2"));
  const [mediaType, content] = Object.entries(response.content ?? {})[0] ?? ["", {}];
  let schema = resolve(api, content.schema);
  const isList = schema.type === "array";
  if (isList) schema = resolve(api, schema.items);
  const rows = fieldRows(api, schema.properties ?? {});
  return {
    title: `Response ${status}${mediaType ? `, ${mediaType}` : ""}${isList ? ", a list of" : ""}`,
    description: schema.description ?? "",
    rows,
  };
}

const jsonBody = (operation) => operation.requestBody?.content["application/json"]?.schema;

function curlExample(method, path, operation) {
  const shown = (operation.parameters ?? []).filter((each) => each.in === "query" && each.schema.examples);
  const query = shown.map((each) => `${each.name}=${each.schema.examples[0]}`).join("&");
  const url = `${base}${path.replace("{id}", "17")}${query && `?${query}`}`;
  const parts = ["curl"];
  if (operation.security) parts.push('-H "Authorization: Bearer $DDSH_TOKEN"');
  const body = jsonBody(operation);
  if (body) parts.push(`--json '${JSON.stringify(body.examples[0])}'`);
  else if (operation.requestBody) parts.push("--data-binary @photo.jpg");
  else if (method !== "get") parts.push(`-X ${method.toUpperCase()}`);
  return [...parts, `'${url}'`].join(" ");
}

function createOperation(api, path, method, operation) {
  const example = createElement("pre", { textContent: curlExample(method, path, operation) });
  const body = createElement("div", { className: "body" }, example);
  const heading = (text) => createElement("h3", { textContent: text });
  if (jsonBody(operation)) {
    const { description, properties } = jsonBody(operation);
    body.append(heading("Body, application/json"), createElement("p", { textContent: description }));
    body.append(createTable(fieldRows(api, properties)));
  } else if (operation.requestBody) {
    const mediaTypes = Object.keys(operation.requestBody.content).join(" or ");
    body.append(createElement("p", { textContent: `Body: ${mediaTypes} (field “image”).` }));
  }
  const rows = parameterRows(api, operation);
  if (rows.length) body.append(heading("Parameters"), createTable(rows));
  const response = describeResponse(api, operation);
  body.append(heading(response.title));
  if (response.rows.length) {
    body.append(createElement("p", { textContent: response.description }), createTable(response.rows));
  }
  const summary = createElement(
    "summary",
    {},
    createElement("span", { className: "method", textContent: method.toUpperCase() }),
    code(path),
    createElement("span", { className: "description", textContent: operation.description }),
  );
  return createElement("details", {}, summary, body);
}

const api = await (await fetch("openapi.json")).json();
let tag = null;
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    if (operation.tags[0] !== tag) {
      tag = operation.tags[0];
      container.append(createElement("h2", { textContent: tag }));
    }
    container.append(createOperation(api, path, method, operation));
  }
}
