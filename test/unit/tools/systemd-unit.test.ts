import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';
import { MINIMAL } from '../config/minimal.ts';

const root = resolve(import.meta.dirname, '../../..');
const unit = readFileSync(resolve(root, 'deploy/systemd/edge.service'), 'utf8');

describe('the unit for systemd', () => {
	test('is the same in the docs as in deploy/', () => {
		for (const file of globSync(['*.md', 'docs/**/*.md'], { cwd: root })) {
			const text = readFileSync(resolve(root, file), 'utf8');
			for (const [, block] of text.matchAll(/^```ini\n(# \/etc\/systemd\/system\/edge\.service\n.*?)^```$/gms)) {
				assert.equal(block, unit, file);
			}
		}
	});

	test('gives the proxy the time that it takes by default to drain, and asks for a reload as the proxy expects it', () => {
		const { shutdownDelayMs, shutdownDrainMs } = parseConfig(MINIMAL, 'config.toml').limits;
		const stopLimitMs = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]) * 1000;
		assert.ok(stopLimitMs > shutdownDelayMs + shutdownDrainMs, `${stopLimitMs} ms`);
		assert.match(unit, /^ExecReload=\/bin\/kill -HUP \$MAINPID$/m);
	});
});
