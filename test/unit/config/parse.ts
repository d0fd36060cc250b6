import assert from 'node:assert/strict';
import { Ajv } from 'ajv';
import type { Config } from '../../../packages/proxy/src/config/config.ts';
import { ConfigError } from '../../../packages/proxy/src/config/error.ts';
import { configSchemaText } from '../../../packages/proxy/src/config/json-schema.ts';
import * as load from '../../../packages/proxy/src/config/load.ts';
import { parseToml } from '../../../packages/proxy/src/config/toml.ts';

/** Strict, but for parts of schemas that leave out the type which the whole has said. */
const ajv = new Ajv({ allErrors: true, strictTypes: false });
const validate = ajv.compile(JSON.parse(configSchemaText()));

/** What the JSON Schema has against a configuration. */
export function schemaProblems(root: unknown): string[] {
	return validate(root) ? [] : validate.errors!.map(({ instancePath, message }) => `${instancePath}: ${message}`);
}

/** `parseConfig`, which proves by the way that the JSON Schema accepts what the loader does. */
export function parseConfig(text: string, path = 'config.toml'): Config {
	const config = load.parseConfig(text, path);
	assert.deepEqual(schemaProblems(parseToml(text, path).root), [], text);
	return config;
}

/** The error that refuses a configuration; `undefined`: it is accepted. The JSON Schema has to refuse it too, unless it cannot. */
export function errorIn(text: string): ConfigError | undefined {
	try {
		parseConfig(text);
		return undefined;
	} catch (error) {
		assert.ok(error instanceof ConfigError, String(error));
		const { problems } = error;
		const isToml = problems.every(({ key }) => key !== undefined);
		if (isToml && !problems.some(({ message }) => isBeyondSchema(message))) {
			assert.notDeepEqual(schemaProblems(parseToml(text, 'config.toml').root), [], text);
		}
		return error;
	}
}

/** Whether no JSON Schema can find this problem, or ours leaves it to the loader. */
export function isBeyondSchema(message: string): boolean {
	return BEYOND_SCHEMA.some((beyond) => beyond.test(message));
}

const BEYOND_SCHEMA = [
	/less than refresh_secs/,
	/is already (?:the prefix|the name|issuers)/,
	/tenants of two issuers could have the same name/,
	/to refill; set it to/,
	/must ascend/,
	/which leads to the same upstream|for the same upstream/,
	/needs an issuer that is an https/,
	/must begin with the first address of the range/,
	/there is no \[\[upstreams\]\] with the name|applies to all routes/,
	/is "auto", |" is duplicated|conflicts with addresses|set it to a list of addresses|needs dns;|needs max_requests/,
	/it is an IP address|must be the address and the port of a DNS/,
	/http:\/\/ is only for 127|is only for an? (?:rediss|https):|clear text/,
	/it may not have parameters|its port must be|nothing can listen on|these words must be lower case/,
	/has several addresses|with TLS and without|different databases|has only number 0|conflicts with sentinel_name/,
	/"\*" does not match a part of a segment|a host name or an IP address, without a port/,
	/are the same path|opens (?:the same paths|"\S+") of the upstream/,
	/: user info is not sent; put|a fragment is not sent; leave/,
];
