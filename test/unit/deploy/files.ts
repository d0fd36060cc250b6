/** What deploy/ says, read as its readers do. */
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';

export const ROOT = resolve(import.meta.dirname, '../../..');

export function text(file: string): string {
	return readFileSync(resolve(ROOT, file), 'utf8');
}

/** A YAML file of one document; merge keys as Compose reads them. */
// biome-ignore lint/suspicious/noExplicitAny: these files have their own schemas, and linters check them (test/system/deploy.test.ts).
export function yaml(file: string): any {
	return parse(text(file), { merge: true });
}

/** A Kubernetes object of deploy/kubernetes/base. */
export function inBase(kind: string, name: string): ReturnType<typeof yaml> {
	const files = globSync('deploy/kubernetes/base/*.yaml', { cwd: ROOT });
	const objects = files.flatMap((file) => parseAllDocuments(text(file)).map((document) => document.toJS()));
	const found = objects.find((object) => object?.kind === kind && object.metadata?.name === name);
	if (found === undefined) throw new Error(`deploy/kubernetes/base has no ${kind} ${name}`);
	return found;
}

/** Every configuration of the proxy in deploy/. */
export const CONFIGS = globSync('deploy/**/config.toml', { cwd: ROOT }).sort();

export function config(file: string) {
	return parseConfig(text(file), file);
}
