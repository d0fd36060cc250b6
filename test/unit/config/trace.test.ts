import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';
import { MINIMAL } from './minimal.ts';
import { tableOf } from './table.ts';

const ENDPOINT = 'endpoint = "http://collector:4318/v1/traces"';
const { parse, problemOf } = tableOf('trace');

describe('[trace]', () => {
	it('is undefined if it is absent', () => {
		assert.equal(parseConfig(MINIMAL, 'config.toml').trace, undefined);
	});

	it('needs only an endpoint', () => {
		assert.deepEqual(parse(ENDPOINT).trace, {
			endpoint: 'http://collector:4318/v1/traces',
			ratio: 0.01,
			serviceName: 'mtls-edge-proxy',
			tenants: false,
			maxQueueSpans: 4096,
		});
	});

	it('accepts header fields over https://, and over http:// to this machine', () => {
		for (const address of ['https://c.example/v1/traces', 'http://127.0.0.1:4318/v1/traces', 'http://[::1]:4318/']) {
			assert.equal(parse(`endpoint = "${address}"\nheaders_path = "h"`).trace?.headersPath, 'h', address);
		}
	});

	for (const [lines, message] of [
		['', /trace\.endpoint.* is missing; set it to the address where the collector/s],
		['endpoint = "collector:4318"', /trace\.endpoint.*write it in full/s],
		['endpoint = "grpc://collector:4317"', /trace\.endpoint.*write it in full/s],
		['endpoint = "http://u:hunter2@collector/"', /\/\/\*\*\*@collector.*user info is not sent/s],
		['endpoint = "http://collector/#x"', /a fragment is not sent/],
		[`${ENDPOINT}\nratio = 1.1`, /trace\.ratio.* must be a number from 0 to 1 \(got 1\.1\)/s],
		[`${ENDPOINT}\nratio = nan`, /trace\.ratio/],
		[`${ENDPOINT}\nservice_name = ""`, /trace\.service_name.*1 to 255/s],
		[`${ENDPOINT}\nmax_queue_spans = 63`, /trace\.max_queue_spans.*at least 64/s],
		[`${ENDPOINT}\nmax_queue_spans = 131073`, /trace\.max_queue_spans.*at most 131072/s],
		[`${ENDPOINT}\ntenants = 1`, /trace\.tenants.*true or false/s],
		[`${ENDPOINT}\nca_path = "ca.pem"`, /trace\.ca_path.* is only for an https:\/\/ endpoint/s],
		[`${ENDPOINT}\nheaders_path = "h"`, /trace\.headers_path.* clear text; write https:/s],
		['endpont = "x"', /endpont.*endpoint/s],
	] as const) {
		it(`says what is wrong with ${lines.slice(0, 70)}`, () => {
			const problem = problemOf(lines);
			assert.match(problem, message);
			assert.ok(!problem.includes('hunter2'), problem);
		});
	}
});
