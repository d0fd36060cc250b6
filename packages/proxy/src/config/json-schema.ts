import { z } from 'zod';
import { NEEDS } from './conflicts.ts';
import { configFile } from './schema.ts';
import { unitOf } from './units.ts';
import { capitalized } from './wording.ts';

/**
 * The configuration file's JSON Schema (draft-07, for taplo, Even Better TOML and VS Code), generated from the zod schema: only `tables/`
 * has keys, types, ranges, defaults and meanings. It accepts whatever the proxy accepts, and refuses the mistakes that a JSON Schema can
 * express. `proxy check` finds the rest.
 */

/** The schema's file name in the folder of a configuration. */
export const SCHEMA_FILE = 'config.schema.json';
/** First line of a configuration next to the schema file: a directive for editors, a comment in TOML. */
export const SCHEMA_LINE = `#:schema ./${SCHEMA_FILE}`;

/** The subset of JSON Schema that this file produces. */
export type JsonSchema = z.core.JSONSchema.JSONSchema;

/** The text of `proxy schema` and schema/config.schema.json; ends with a line break. */
export function configSchemaText(): string {
	return `${JSON.stringify(publish(describeConfig()), null, 2)}\n`;
}

/** The schema with the facts of each key (`GlobalMeta`), from which the documentation is generated. */
export function describeConfig(): JsonSchema {
	const schema = z.toJSONSchema(configFile, {
		target: 'draft-07',
		io: 'input',
		unrepresentable: 'any',
		override: ({ zodSchema, jsonSchema }) => {
			// The empty table is the loader's stand-in for an absent one; editors must not offer it as a default.
			if (zodSchema._zod.def.type === 'prefault') delete jsonSchema.default;
			if (jsonSchema.or !== undefined) spellTwoWays(jsonSchema);
		},
	}) as JsonSchema;
	for (const [table, needs] of Object.entries(NEEDS)) {
		const byKey = Object.entries(Object.groupBy(needs, ([key]) => key));
		const dependencies = Object.fromEntries(byKey.map(([key, all]) => [key, all!.map(([, other]) => other)]));
		Object.assign(tableOf(schema, table), { dependencies });
	}
	for (const [table, rules] of Object.entries(RULES)) Object.assign(tableOf(schema, table), rules);
	return schema;
}

/** The schema of one table; `''`: the keys above the first table. `upstreams.tls` is a table inside a list element. */
export function tableOf(schema: JsonSchema, name: string): JsonSchema {
	return name.split('.').reduce((outer, part) => {
		const table = part === '' ? outer : (outer.properties?.[part] as JsonSchema);
		return (table.items as JsonSchema | undefined) ?? table;
	}, schema);
}

/** Adds the short form of a value: `or` is its schema, or `'one'` for a single list element without brackets. */
function spellTwoWays(schema: JsonSchema & { or?: unknown }): void {
	const { or, description, default: fallback, unset, ...long } = schema;
	for (const key of Object.keys(schema)) delete schema[key];
	Object.assign(schema, { anyOf: [or === 'one' ? long.items : or, long] });
	for (const [key, value] of Object.entries({ description, default: fallback, unset })) {
		if (value !== undefined) schema[key] = value;
	}
}

const BURST = { dependencies: { burst: { required: ['rps'], properties: { rps: { minimum: 1 } } } } };
const isTrue = (key: string): JsonSchema => ({ required: [key], properties: { [key]: { const: true } } });
const has = (key: string): JsonSchema => ({ required: [key] });
const hasNo = (...keys: string[]): JsonSchema => ({ properties: Object.fromEntries(keys.map((key) => [key, false])) });

/** `if`, `then` and `else` of JSON Schema. */
function where(condition: JsonSchema, holds: JsonSchema, otherwise?: JsonSchema): JsonSchema {
	// biome-ignore lint/suspicious/noThenProperty: the keyword's name.
	return { if: condition, then: holds, ...(otherwise && { else: otherwise }) };
}

/**
 * The rules for combinations of keys (`*conflicts.ts`), as far as JSON Schema can express them. It cannot express duplicate names and
 * prefixes, nor a number that bounds another one.
 */
const RULES: Readonly<Record<string, JsonSchema>> = {
	'': {
		required: ['tls'],
		...where({ required: ['issuers'], properties: { issuers: { minItems: 1 } } }, hasNo('jwt'), has('jwt')),
	},
	tls: where(isTrue('crl_required'), has('crl_path')),
	jwt: { required: ['jwks_path'] },
	issuers: {
		oneOf: [has('public_key_path'), has('jwks_path'), has('jwks_url'), isTrue('discovery')],
		...where(
			{ anyOf: [has('public_key_path'), has('jwks_path')] },
			hasNo('jwks_ca_path', 'refresh_secs', 'max_stale_secs'),
		),
	},
	tenants: BURST,
	'upstreams.tls': {
		...where(isTrue('insecure_skip_verify'), hasNo('ca_path')),
	},
	routes: BURST,
};

/** Moves members that editors do not know into the description. */
function publish(schema: JsonSchema, readOfTable?: unknown): JsonSchema {
	const { noun, unset, read = readOfTable, description, ...published } = schema;
	if (description !== undefined) {
		const isTable = published.properties !== undefined || published.items !== undefined;
		const facts = [
			...(unset === undefined ? [] : [`If absent: ${unset}`]),
			...(isTable || read === undefined || read === 'by each reload' ? [] : [`Read ${read}`]),
		];
		published.description = [capitalized(description), ...facts].map((sentence) => `${sentence}.`).join(' ');
	}
	const part = (one: unknown) => (typeof one === 'object' ? publish(one as JsonSchema, read) : one) as JsonSchema;
	for (const key of ['items', 'additionalProperties'] as const) {
		if (published[key] !== undefined) published[key] = part(published[key]);
	}
	if (published.anyOf !== undefined) published.anyOf = published.anyOf.map(part);
	if (published.properties !== undefined) {
		const entries = Object.entries(published.properties);
		published.properties = Object.fromEntries(entries.map(([key, one]) => [key, orWithUnit(key, part(one))]));
	}
	return published;
}

/** A duration or size may also be a text with its unit. */
function orWithUnit(key: string, schema: JsonSchema): JsonSchema {
	const unit = unitOf(key);
	if (unit === undefined) return schema;
	const { description, default: fallback, ...number } = schema;
	const either = { anyOf: [number, { type: 'string', pattern: unit.pattern } as const] };
	return {
		...either,
		...(description !== undefined && { description }),
		...(fallback !== undefined && { default: fallback }),
	};
}
