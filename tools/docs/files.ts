import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { configSchemaText } from '../../packages/proxy/src/config/json-schema.ts';
import { commandDocs } from '../command-docs.ts';
import { configurationKeys, restartKeys } from './configuration.ts';
import { accessMembers, familiesOf, gateTable, handshakeReasons, logTargets } from './tables.ts';

/** Every file that is made from the code, in whole or in parts, as it should be. */
export function generatedFiles(root: string): { path: string; text: string }[] {
	const pages = Object.entries(PAGES).map(([path, parts]) => ({
		path,
		text: fill(readFileSync(join(root, path), 'utf8'), parts, path),
	}));
	const commands = Object.entries(commandDocs()).map(([path, text]) => ({ path, text }));
	return [{ path: 'schema/config.schema.json', text: configSchemaText() }, ...pages, ...commands];
}

/** The parts of each page that are made, by the names in its markers. */
const PAGES: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
	'docs/reference/configuration.md': { keys: configurationKeys },
	'docs/reference/logs.md': { targets: logTargets, members: accessMembers, handshakes: handshakeReasons },
	'docs/how-to/explain.md': { gates: () => gateTable('explained', ['`gate`', 'Checks']) },
	'docs/how-to/troubleshooting.md': { restarts: restartKeys },
	'docs/reference/tracing.md': { gates: () => gateTable('traced', ['Event', 'Verdict']) },
	'docs/reference/metrics.md': {
		proxy: () => familiesOf('proxy_'),
		process: () => familiesOf('process_'),
		nodejs: () => familiesOf('nodejs_'),
	},
};

/** @throws Error where a marker and the parts do not fit each other. */
export function fill(page: string, parts: Readonly<Record<string, () => string>>, path: string): string {
	const missing = new Set(Object.keys(parts));
	const filled = page.replace(
		/^(<!-- made from the code: (\S+) -->\n).*?^(<!-- end -->)$/gms,
		(_, start, name, end) => {
			const part = parts[name];
			if (part === undefined) throw new Error(`${path}: nothing is made for the marker ${name}`);
			missing.delete(name);
			return `${start}\n${part()}\n\n${end}`;
		},
	);
	if (missing.size > 0) throw new Error(`${path}: no marker for ${[...missing].join(', ')}`);
	return filled;
}
