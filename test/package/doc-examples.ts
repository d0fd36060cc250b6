import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** A whole program from the documentation: a code block ```ts title="NAME.ts". */
export interface DocExample {
	readonly file: string;
	readonly code: string;
	/** Its place in the page, for messages. */
	readonly source: string;
}

const ROOT = resolve(import.meta.dirname, '../..');
const PROGRAM = /^```ts title="([\w-]+\.ts)"\n(.*?)^```$/gms;
const FRAGMENT = /^```ts\n(.*?)^```$/gms;

/** All programs in a Markdown file of this repository. */
export function programsIn(markdown: string): DocExample[] {
	const text = readFileSync(join(ROOT, markdown), 'utf8');
	return [...text.matchAll(PROGRAM)].map(([, file, code]) => ({ file: file!, code: code!, source: markdown }));
}

/** TypeScript that is no program: it is type-checked, not run. */
export function fragmentsIn(markdown: string): string[] {
	const text = readFileSync(join(ROOT, markdown), 'utf8');
	return [...text.matchAll(FRAGMENT)].map(([, code]) => code!);
}
