import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { assertNodeInternals } from '../../../packages/gate/src/tls/node-internals.ts';

describe("Node's internals", () => {
	it('are what the proxy relies on in this version of Node', () => {
		assertNodeInternals();
	});

	it('that are missing are named in one line', () => {
		const socket = { _handle: { enableCertCb() {}, verifyError() {} }, push() {}, _read() {}, secureConnecting: true };
		assert.throws(() => assertNodeInternals(socket as unknown as TLSSocket), {
			message: `Node ${process.version} has no certCbDone, _releaseControl on TLS sockets, which this proxy needs: run it with Node 24 or 26`,
		});
	});
});
