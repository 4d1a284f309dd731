// Previews of uploaded query images, kept in this tab, so that a search survives a reload. The service keeps nothing.

const PREFIX = "ddsh-query-";
const SIDE = 320; // pixels
const MAX_KEPT = 20;

const urls = new Map(); // by query: object URLs of this page

// Remember the name and a small preview of a file whose query the service has returned.
export async function keepUpload(query, file) {
  urls.set(query, { name: file.name, url: URL.createObjectURL(file) });
  const kept = Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX));
  if (kept.length >= MAX_KEPT) kept.forEach((key) => sessionStorage.removeItem(key));
  try {
    const content = JSON.stringify({ name: file.name, preview: await makePreview(file) });
    sessionStorage.setItem(PREFIX + query, content);
  } catch {
    // No room, or no picture that this browser can show: after a reload there is no preview.
  }
}

async function makePreview(file) {
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height].map((side) => Math.max(1, Math.round(side * scale)));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png").split(",")[1];
}

// Return the name and the URL of a preview; null if this tab does not know the query.
export function findUpload(query) {
  if (urls.has(query)) return urls.get(query);
  const kept = sessionStorage.getItem(PREFIX + query);
  if (kept === null) return null;
  const { name, preview } = JSON.parse(kept);
  const bytes = Uint8Array.from(atob(preview), (each) => each.charCodeAt(0));
  urls.set(query, { name, url: URL.createObjectURL(new Blob([bytes], { type: "image/png" })) });
  return urls.get(query);
}
