import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import * as environment from '../../../packages/proxy/src/cli/environment.ts';

const unknownVariables = (env: Record<string, string>) => environment.unknownVariables(env, COMMANDS);

const namesOf = (...names: string[]) =>
	unknownVariables(Object.fromEntries(names.map((name) => [name, 'secret']))).map(({ name }) => name);

describe('unknown PROXY_ variables', () => {
	it('are named with the variable that was meant, without their value', () => {
		assert.deepEqual(unknownVariables({ PROXY_BNID: 'secret', PROXY_XYZZYPLUGH: 'secret', PATH: '/bin' }), [
			{ name: 'PROXY_BNID', message: 'is not a variable of the proxy; did you mean PROXY_BIND?' },
			{
				name: 'PROXY_XYZZYPLUGH',
				message:
					'is not a variable of the proxy; there are PROXY_CONFIG, PROXY_BIND, PROXY_METRICS_BIND, PROXY_PID_FILE, PROXY_WORKERS, PROXY_LOG_FORMAT',
			},
		]);
	});

	it('are not those that are read, nor those of others', () => {
		assert.deepEqual(
			namesOf('PROXY_CONFIG', 'PROXY_WORKERS', 'RUST_LOG', 'HTTP_PROXY', 'proxy_bind', 'PROXYCHAINS'),
			[],
		);
	});

	it('are not those that Kubernetes sets for a Service called proxy', () => {
		const ofServices = ['PROXY', 'PROXY_EDGE'].flatMap((service) => [
			...[`${service}_SERVICE_HOST`, `${service}_SERVICE_PORT`, `${service}_SERVICE_PORT_HTTPS`, `${service}_PORT`],
			...['', '_PROTO', '_PORT', '_ADDR'].map((part) => `${service}_PORT_8443_TCP${part}`),
		]);
		assert.deepEqual(namesOf(...ofServices), []);
		assert.deepEqual(namesOf('PROXY_PORTS'), ['PROXY_PORTS']);
	});
});
