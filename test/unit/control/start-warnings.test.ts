import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	connectionWarnings,
	metricsWarnings,
	nodeWarnings,
	runsInContainer,
	sharesPorts,
} from '../../../packages/proxy/src/control/start-warnings.ts';

for (const version of ['24.0.0', '26.9.9', '26.10.0', '26.12.1', '26.13.0']) {
	test(`Node ${version} causes a warning about its faults`, () => {
		const [warning, ...others] = nodeWarnings(version);
		assert.match(
			warning!,
			new RegExp(
				`^Node ${version} has known TLS vulnerabilities .* use 26\\.13\\.1 or later: the container image has it`,
			),
		);
		assert.deepEqual(others, []);
	});
}

for (const version of ['26.13.1', '26.13.10', '26.14.0', '27.0.0', '100.0.0', '27.0.0-nightly']) {
	test(`Node ${version} is not`, () => assert.deepEqual(nodeWarnings(version), []));
}

test('more connections than there are descriptors for are worth a warning, fewer are not', () => {
	assert.equal(connectionWarnings(10_000, 9_000).length, 1);
	assert.deepEqual(connectionWarnings(9_000, 9_000), []);
	assert.deepEqual(connectionWarnings(undefined, 9_000), []);
	assert.deepEqual(connectionWarnings(undefined, 1024), []);
	assert.match(connectionWarnings(undefined, 1023).join(), /room for only 1023 clients; raise it/);
	// Somebody has thought about it.
	assert.deepEqual(connectionWarnings(500, 600), []);
});

test('only Linux shares a port among listeners the way the workers need it', () => {
	assert.equal(sharesPorts('linux'), true);
	assert.equal(sharesPorts('darwin'), false);
});

test('warns of a metrics listener on 0.0.0.0 or :: outside a container, and of no other', () => {
	for (const host of ['0.0.0.0', '::', '[::]']) {
		assert.match(metricsWarnings(host, false).join(), /no authentication .* all addresses .*--metrics-bind/);
		assert.deepEqual(metricsWarnings(host, true), []);
	}
	for (const host of ['127.0.0.1', '::1', '10.0.0.1', 'localhost']) assert.deepEqual(metricsWarnings(host, false), []);
});

test('a container is known by the files of Docker and Podman, or the variables of Kubernetes and systemd-nspawn', () => {
	assert.equal(
		runsInContainer({}, () => false),
		false,
	);
	for (const file of ['/.dockerenv', '/run/.containerenv'])
		assert.equal(
			runsInContainer({}, (path) => path === file),
			true,
		);
	for (const env of [{ KUBERNETES_SERVICE_HOST: '10.0.0.1' }, { container: 'podman' }])
		assert.equal(
			runsInContainer(env, () => false),
			true,
		);
});
