import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from '../../../../packages/proxy/src/control/files/inspection.ts';
import { gatesWhere } from '../../../../packages/proxy/src/gates/pipeline.ts';
import { EXPLAIN_CASES, explainConfig, explained } from '../../../fixtures/explain-cases.ts';
import { testPki } from '../../../fixtures/pki.ts';

const pki = await testPki();
const config = pki.writeFile('explain.toml', explainConfig('http://127.0.0.1:9'));
const { files, problems } = await inspect(config, new Date());
assert.deepEqual(problems, []);

const PIPELINE = gatesWhere('explained');

describe('what is said of a request', () => {
	for (const one of EXPLAIN_CASES) {
		test(`${one.protocol ?? 'h1'}: ${one.name}`, async () => {
			const said = await explained(files!, one);
			const shown = JSON.stringify(said, undefined, 1);
			const places = said.gates.map(({ gate }) => PIPELINE.indexOf(gate));
			assert.ok(!places.includes(-1) && places.every((place, i) => i === 0 || place > places[i - 1]!), shown);
			if (one.reason === undefined) return assert.equal(said.outcome, 'passes', shown);
			assert.equal(said.outcome, 'refused', shown);
			assert.equal(said.reason, one.reason, shown);
			assert.equal(said.answer?.logged_status ?? 0, one.status, shown);
			if (one.status !== 0) assert.equal(said.answer?.status, one.isGrpc ? 200 : one.status, shown);
			// A gate of several checks is refused for the first of them that says no.
			const checks = said.gates.find(({ gate }) => gate === said.ended_by)!.checks;
			const first = checks.find(({ verdict }) => verdict === 'refused');
			if (checks.length > 0) assert.equal(first?.reason, one.reason, shown);
		});
	}
});
