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

/** The error that refuses a configuration; `undefined`: it is accepted. */
export function errorIn(text: string): ConfigError | undefined {
	try {
		parseConfig(text);
		return undefined;
	} catch (error) {
		assert.ok(error instanceof ConfigError, String(error));
		return error;
	}
}
