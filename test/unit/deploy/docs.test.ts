/** docs/how-to/deploy.md names what is there. Its commands need engines and clusters; what they are given is tried here and in test/system. */
import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { config, ROOT, text, yaml } from './files.ts';

const page = text('docs/how-to/deploy.md');
const commands = Array.from(page.matchAll(/^```sh\n(.*?)^```$/gms), ([, block]) =>
	block!.replaceAll('\\\n', ' ').trim().split('\n'),
).flat();

/** Each form of command, and what it has to find. */
const FORMS: readonly (readonly [RegExp, (...parts: string[]) => void])[] = [
	[
		/^docker build .*?(?:--build-arg (\w+)=(\w+) )?\.$/,
		(name = 'BODY_MODE', value = 'collected') => {
			assert.match(text('Dockerfile'), new RegExp(`^ARG ${name}=`, 'm'));
			assert.match(text('Dockerfile'), new RegExp(`^ +${value}\\) node tools/build`, 'm'));
		},
	],
	[
		/^docker run .*:(\/[\w/]+):ro"(.*) mtls-edge-proxy(?: check)?$/,
		(folder, rest) => {
			assert.match(text('Dockerfile'), new RegExp(`^WORKDIR ${folder}$`, 'm'));
			for (const [, port] of rest.matchAll(/--publish \S*?(\d+)(?= |$)/g))
				assert.match(text('Dockerfile'), new RegExp(`^EXPOSE.* ${port}\\b`, 'm'));
		},
	],
	[/^docker kill --signal (HUP) edge$/, () => assert.match(text('packages/proxy/src/main.ts'), /SIGHUP/)],
	[
		/^docker compose (?:up|down|stop)((?: [a-z]+)?)/,
		(service) => {
			if (service) assert.ok(service.trim() in yaml('compose.yaml').services);
		},
	],
	[
		/^docker compose cp edge:(\S+) dev$/,
		(folder) => {
			assert.equal(join('/etc/edge', config('deploy/compose/config.toml').tls.certPath, '..'), folder);
		},
	],
	[
		/^TOKEN=\$\(docker compose run --rm -T --no-deps (\w+) token /,
		(service) => assert.ok(service in yaml('compose.yaml').services),
	],
	[
		/^curl --cacert (dev\/ca\.crt) .*localhost:(\d+)(\/\w+)\//,
		(ca, port, prefix) => {
			const { tls, routes } = config('deploy/compose/config.toml');
			assert.equal(ca, tls.clientCaPath);
			assert.ok(routes.some((route) => route.prefix === prefix));
			assert.ok(yaml('compose.yaml').services.edge.ports.some((published: string) => published.includes(`:${port}:`)));
		},
	],
	[
		/^kubectl create namespace (\w+)$/,
		(namespace) => {
			assert.equal(yaml('deploy/kubernetes/overlays/example/kustomization.yaml').namespace, namespace);
		},
	],
	[
		/^kubectl --namespace edge create configmap edge-trust --from-file=(\S+) --from-file=(\S+)$/,
		(...files) => {
			for (const file of files)
				assert.match(text('deploy/kubernetes/base/config.toml'), new RegExp(`"/run/edge/trust/${file}"`));
		},
	],
	[
		/^kubectl --namespace edge create secret tls (\S+) /,
		(name) => {
			assert.match(text('deploy/kubernetes/base/deployment.yaml'), new RegExp(`secretName: ${name},`));
		},
	],
	[/^kubectl apply --kustomize (\S+)$/, (folder) => assert.ok(existsSync(join(ROOT, folder, 'kustomization.yaml')))],
	[
		/^useradd --system .* (\w+)$/,
		(user) => assert.match(text('deploy/systemd/edge.service'), new RegExp(`^User=${user}$`, 'm')),
	],
	[/^cp (\S+) \/etc\/systemd\/system\/edge\.service$/, (unit) => assert.ok(existsSync(join(ROOT, unit)))],
	[/^systemctl enable --now edge$/, () => {}],
	[/^npm install --global (\S+)$/, (name) => assert.equal(JSON.parse(text('packages/proxy/package.json')).name, name)],
	[/^proxy check --config config\.toml$/, () => {}],
];

describe('docs/how-to/deploy.md', () => {
	for (const command of commands) {
		test(`matches the repository: ${command.slice(0, 70)}`, () => {
			const form = FORMS.find(([pattern]) => pattern.test(command));
			assert.ok(form, `no check is known for this command: ${command}`);
			const [pattern, check] = form;
			check(...pattern.exec(command)!.slice(1));
		});
	}

	test('names only existing alerts, files and numbers', () => {
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
