/** docs/how-to/deploy.md names what is there. Its commands need engines and clusters; what they are given is tried here and in test/system. */
import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ROOT, text } from './files.ts';

const page = text('docs/how-to/deploy.md');
const commands = Array.from(page.matchAll(/^```sh\n(.*?)^```$/gms), ([, block]) =>
	block!.replaceAll('\\\n', ' ').trim().split('\n'),
).flat();

/** Each form of command, and where the repository has its parts: files, each with a line in which $1 is the first part. */
const FORMS: readonly (readonly [RegExp, Readonly<Record<string, string>>])[] = [
	[/^docker build --tag \S+ \.$/, {}],
	[/^docker build .*--build-arg (\w+)=(\w+) /, { Dockerfile: '^ARG $1=[^]*^ +$2\\) node tools/build' }],
	[/^docker run .*:(\/[\w/]+):ro" .*:(\d+) .*:(\d+) mtls-edge-proxy$/, { Dockerfile: '^WORKDIR $1\nEXPOSE $2 $3$' }],
	[/^docker run .*:(\/[\w/]+):ro" mtls-edge-proxy check$/, { Dockerfile: '^WORKDIR $1$' }],
	[/^docker kill --signal (HUP) edge$/, { 'packages/proxy/src/main.ts': 'SIG$1' }],
	[/^docker compose (?:up|down|stop) (?!-)(\w+)/, { 'compose.yaml': '^  $1:$' }],
	[/^docker compose (?:up|down)\b/, {}],
	[/^docker compose cp edge:\/etc\/edge\/(\w+) dev$/, { 'deploy/compose/config.toml': '^cert_path = "$1/' }],
	[/^TOKEN=\$\(docker compose run --rm -T --no-deps (\w+) token /, { 'compose.yaml': '^  $1:$' }],
	[
		/^curl --cacert dev\/(ca\.crt) .*localhost:(\d+)(\/\w+)\//,
		{ 'compose.yaml': ':$2:', 'deploy/compose/config.toml': 'client_ca_path = "\\S*$1"[^]*^prefix = "$3"' },
	],
	[/^kubectl create namespace (\w+)$/, { 'deploy/kubernetes/overlays/example/kustomization.yaml': '^namespace: $1$' }],
	[
		/^kubectl --namespace edge create configmap edge-trust --from-file=(\S+) --from-file=(\S+)$/,
		{ 'deploy/kubernetes/base/config.toml': '"/run/edge/trust/$1"[^]*"/run/edge/trust/$2"' },
	],
	[
		/^kubectl --namespace edge create secret tls (\S+) /,
		{ 'deploy/kubernetes/base/deployment.yaml': 'secretName: $1,' },
	],
	[/^kubectl apply --kustomize (\S+)$/, { 'deploy/kubernetes/overlays/example/kustomization.yaml': '^resources:' }],
	[/^useradd --system .* (\w+)$/, { 'deploy/systemd/edge.service': '^User=$1$' }],
	[/^cp deploy\/systemd\/edge\.service \/etc\/systemd\/system\/edge\.service$/, {}],
	[/^systemctl enable --now edge$/, {}],
	[/^npm install --global (\S+)$/, { 'packages/proxy/package.json': '"name": "$1"' }],
	[/^proxy check --config config\.toml$/, {}],
];

describe('docs/how-to/deploy.md', () => {
	for (const command of commands) {
		test(`matches the repository: ${command.slice(0, 70)}`, () => {
			const [form, lines] = FORMS.find(([one]) => one.test(command)) ?? assert.fail('add its form to FORMS');
			const parts = form.exec(command)!.map((part) => part.replaceAll(/[.\\/]/g, '\\$&'));
			for (const [file, line] of Object.entries(lines)) {
				const wanted = line.replaceAll(/\$(\d)/g, (_, i) => parts[i]!);
				assert.match(text(file), new RegExp(wanted, 'm'), file);
			}
		});
	}

	test('names only existing alerts, files and versions', () => {
		const alerts = new Set(text('deploy/prometheus/rules.yaml').match(/MtlsEdge\w+/g));
		for (const [alert] of page.matchAll(/MtlsEdge\w+/g)) assert.ok(alerts.has(alert), alert);
		for (const [, path = ''] of page.matchAll(/`((?:deploy|\.github)\/[\w./-]+)`/g))
			assert.ok(existsSync(join(ROOT, path)), path);
		assert.deepEqual(globSync('deploy/kubernetes/components/*', { cwd: ROOT }).sort(), [
			'deploy/kubernetes/components/cert-manager',
			'deploy/kubernetes/components/prometheus-operator',
			'deploy/kubernetes/components/redis-store',
		]);
		assert.match(
			text('Dockerfile'),
			new RegExp(`^ARG NODE_VERSION=${/Node ([\d.]+), the built/.exec(page)?.[1]}$`, 'm'),
		);
	});
});
