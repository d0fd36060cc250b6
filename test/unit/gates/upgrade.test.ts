import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { METHOD_NOT_ALLOWED, UPGRADE_UNSUPPORTED } from '../../../packages/gate/src/gates/rejection.ts';
import { refuseProtocolChange } from '../../../packages/proxy/src/gates/upgrade.ts';

describe('a change of protocol', () => {
	it('is refused with 501 when the request asks for an upgrade, whatever its method', () => {
		for (const method of ['GET', 'POST', 'CONNECT', 'TRACE']) {
			assert.equal(refuseProtocolChange(method, true), UPGRADE_UNSUPPORTED, method);
		}
	});

	it('is refused with 501 for CONNECT and with 405 for TRACE', () => {
		assert.equal(refuseProtocolChange('CONNECT', false), UPGRADE_UNSUPPORTED);
		assert.equal(refuseProtocolChange('TRACE', false), METHOD_NOT_ALLOWED);
	});

	it('is not requested by any other method', () => {
		for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'PROPFIND', 'TRACK']) {
			assert.equal(refuseProtocolChange(method, false), undefined, method);
		}
	});
});
