import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** The parts of the page besides the status. */
export interface Assets {
	readonly css: string;
	readonly scripts: readonly string[];
	/** Changes with the assets: an older page must be reloaded. */
	readonly build: string;
	/** `Content-Security-Policy` of the page: only scripts and styles named here by hash take effect. */
	readonly policy: string;
}

/**
 * Script and style of the page, unchanged from the source; `tools/build` puts the files next to the bundle (`tools/build/assets.ts`).
 * uPlot draws charts, and morphdom updates the parts of the page that differ: both as their authors publish them.
 *
 * @throws Error if a file is missing.
 */
export function readAssets(): Assets {
	const styles = [import.meta.resolve('uplot/dist/uPlot.min.css'), new URL('./assets/page.css', import.meta.url)];
	const scripts = [
		import.meta.resolve('uplot/dist/uPlot.iife.min.js'),
		import.meta.resolve('morphdom/dist/morphdom-umd.min.js'),
		new URL('./assets/page.js', import.meta.url),
	];
	return assetsOf(styles.map(read).join('\n'), scripts.map(read));
}

/** Pure. */
export function assetsOf(css: string, scripts: readonly string[]): Assets {
	const policy = [
		"default-src 'none'",
		`script-src ${scripts.map(hashOf).join(' ')}`,
		`style-src ${hashOf(css)}`,
		"connect-src 'self'",
		// The icon is empty, so that no browser asks for one.
		'img-src data:',
		"form-action 'self'",
		"base-uri 'none'",
		"frame-ancestors 'none'",
	].join('; ');
	const build = createHash('sha256').update(policy).digest('base64url').slice(0, 16);
	return { css, scripts, policy, build };
}

function hashOf(text: string): string {
	return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

function read(url: string | URL): string {
	const text = readFileSync(new URL(url), 'utf8').replaceAll('\r\n', '\n');
	// It would end the element, and the rest would be text.
	if (/<\/(script|style)/i.test(text)) throw new Error(`${url} has an end tag in it and cannot stand in a page`);
	return text;
}
