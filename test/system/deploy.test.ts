/**
 * Manifests that cannot run here (Kubernetes, Docker's engine, GitHub's workflows, Grafana) are checked by their schema or linter.
 * tools/linters/install.sh installs those that Debian does not have.
 */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { temporaryFolder } from '../fixtures/pki.ts';
import { dashboardProgram } from './grafana-types.ts';
import { missingLinter, missingTools, ROOT, succeed, tool } from './tools.ts';

/** The oldest and the newest Kubernetes version whose schemas are used. */
const KUBERNETES = ['1.31', '1.37'];
const CUSTOM = /^(?:cert-manager\.io|monitoring\.coreos\.com)\//;

// biome-ignore lint/suspicious/noExplicitAny: checked below by their schemas.
function build(folder: string, root = 'deploy/kubernetes'): any[] {
	const text = succeed('kustomize', ['build', `${root}/${folder}`]);
	return parseAllDocuments(text).map((document) => document.toJS());
}

describe('Kubernetes', { skip: missingTools('kustomize', 'kubernetes-validate') }, () => {
	/** The example with all its optional parts. */
	const whole = join(temporaryFolder('kubernetes'), 'kubernetes');
	cpSync(join(ROOT, 'deploy/kubernetes'), whole, { recursive: true });
	const example = join(whole, 'overlays/example/kustomization.yaml');
	writeFileSync(example, readFileSync(example, 'utf8').replaceAll(/^ {2}# (?=- )/gm, '  '));

	for (const [folder, root] of [['base'], ['overlays/example'], ['overlays/example', whole]] as const) {
		for (const version of KUBERNETES) {
			test(`${folder}${root === undefined ? '' : ' with its options'}: kustomize builds it, and every object is one of Kubernetes ${version}, without unknown keys`, () => {
				const own = build(folder, root).filter(({ apiVersion }) => !CUSTOM.test(apiVersion));
				assert.ok(own.length >= 7);
				const input = own.map((object) => JSON.stringify(object)).join('\n---\n');
				const { status, all } = tool('kubernetes-validate', ['--kubernetes-version', version, '--strict', '-'], {
					input,
				});
				assert.equal(status, 0, all);
			});
		}
	}

	const skip = missingLinter('@kubernetes-models/cert-manager');
	test('the objects of cert-manager and the Prometheus operator match their schemas', {
		skip,
	}, async () => {
		const custom = build('overlays/example').filter(({ apiVersion }) => CUSTOM.test(apiVersion));
		assert.deepEqual(custom.map(({ kind }) => kind).sort(), ['Certificate', 'PrometheusRule', 'ServiceMonitor']);
		for (const { apiVersion, kind, ...rest } of custom) {
			const owner = apiVersion.startsWith('cert-manager') ? 'cert-manager' : 'prometheus-operator';
			const file = join(ROOT, '.linters/node_modules/@kubernetes-models', owner, apiVersion, `${kind}.js`);
			const { [kind]: Model } = await import(pathToFileURL(file).href);
			new Model(rest).validate();
			assert.throws(() => new Model({ ...rest, spec: 'of another type' }).validate(), kind);
		}
	});

	test('only the proxies may reach the store of the limits, and they have its password', () => {
		const objects = build('overlays/example', whole);
		const find = (kind: string, name: string) =>
			objects.find((object) => object.kind === kind && object.metadata.name === name).spec;
		const [container] = find('Deployment', 'edge').template.spec.containers;
		assert.ok(container.volumeMounts.some(({ name }: { name: string }) => name === 'store'));
		assert.equal(container.volumeMounts.length, 4, 'what was mounted before still is');
		const store = { podSelector: find('NetworkPolicy', 'edge-store').podSelector };
		assert.deepEqual(store.podSelector, find('Deployment', 'edge-store').selector);
		assert.deepEqual(find('NetworkPolicy', 'edge').egress.at(-1).to, [store]);
		const proxies = find('Deployment', 'edge').selector;
		assert.deepEqual(
			find('NetworkPolicy', 'edge-store').ingress.map(({ from }: { from: object }) => from),
			[[{ podSelector: proxies }]],
		);
	});

	test('the example differs from the base only in the settings of a cluster', () => {
		const objects = build('overlays/example');
		assert.ok(objects.every(({ metadata }) => metadata.namespace === 'edge'));
		const deployment = objects.find(({ kind }) => kind === 'Deployment');
		assert.match(deployment.spec.template.spec.containers[0].image, /^registry\.example\//);
	});
});

describe('compose.yaml', { skip: missingTools('check-jsonschema') }, () => {
	test('matches the Compose Specification', () => {
		succeed('check-jsonschema', ['--builtin-schema', 'vendor.compose-spec', 'compose.yaml']);
	});
});

describe('Prometheus', { skip: missingTools('promtool') }, () => {
	test('accepts the alerts, and each fires exactly as its test says', () => {
		assert.match(
			succeed('promtool', ['check', 'rules', 'rules.yaml'], { cwd: join(ROOT, 'deploy/prometheus') }),
			/SUCCESS/,
		);
		succeed('promtool', ['test', 'rules', 'rules.test.yaml'], { cwd: join(ROOT, 'deploy/prometheus') });
	});

	test('accepts the configuration of compose.yaml', () => {
		succeed('promtool', ['check', 'config', '--syntax-only', 'deploy/compose/prometheus.yml']);
	});
});

describe('Grafana', { skip: missingLinter('@grafana/grafana-foundation-sdk') }, () => {
	const scratch = temporaryFolder('dashboard');
	const compile = (json: string) => {
		const program = join(scratch, 'dashboard.ts');
		writeFileSync(program, dashboardProgram(join(ROOT, '.linters/node_modules/@grafana/grafana-foundation-sdk'), json));
		const options = ['--noEmit', '--strict', '--skipLibCheck', '--allowImportingTsExtensions', '--ignoreConfig'];
		return tool(join(ROOT, 'node_modules/.bin/tsc'), [
			...options,
			'--target',
			'es2024',
			'--module',
			'nodenext',
			program,
		]).all;
	};
	const dashboard = readFileSync(join(ROOT, 'deploy/grafana/mtls-edge-proxy.json'), 'utf8');

	test('finds its own types in the dashboard', () => {
		assert.equal(compile(dashboard), '');
		assert.match(compile(dashboard.replace('"legendFormat"', '"legend_format"')), /legend_format/);
	});
});

describe('the workflows', () => {
	const workflows = ['.github/workflows/ci.yml', '.github/workflows/release.yml'];

	test('pass actionlint', { skip: missingTools('actionlint') }, () => {
		succeed('actionlint', workflows);
	});

	test('have only necessary permissions, checked by zizmor', { skip: missingTools('zizmor') }, () => {
		succeed('zizmor', ['--offline', '--no-progress', '--min-severity', 'medium', '.github']);
	});

	test("match GitHub's schemas, like the update settings", { skip: missingTools('check-jsonschema') }, () => {
		succeed('check-jsonschema', ['--builtin-schema', 'vendor.github-workflows', ...workflows]);
		succeed('check-jsonschema', ['--builtin-schema', 'vendor.dependabot', '.github/dependabot.yml']);
	});
});

describe('a linter', { skip: missingTools('kubernetes-validate') }, () => {
	test('reports an invalid object', () => {
		const scratch = temporaryFolder('linters');
		const input = JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec: { ports: 1 } });
		const { status } = tool('kubernetes-validate', ['--strict', '-'], { input, cwd: scratch });
		assert.notEqual(status, 0);
	});
});
