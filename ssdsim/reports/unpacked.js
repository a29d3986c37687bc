"use strict";
// The bytes of what a page holds as base64 of gzip.
async function unpacked(encoded) {
  const packed = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
