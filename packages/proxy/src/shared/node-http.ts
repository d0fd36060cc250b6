/**
 * `node:http`. An `import` of it would load Node's `fetch` into each thread as well, 3 MB that nothing here uses: an import reads every name of a
 * module, and `WebSocket` is one of them.
 */
export const http = process.getBuiltinModule('node:http');
