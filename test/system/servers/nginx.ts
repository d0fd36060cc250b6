/** nginx as a program, with one server. */
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../../fixtures/free-port.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';
import { startProgram } from '../../fixtures/program.ts';
import { until } from '../../fixtures/wait.ts';
import { missingTools } from '../tools.ts';

export const noNginx = missingTools('nginx');

interface Nginx extends AsyncDisposable {
	readonly port: number;
}

/** HTTP/2 in clear text. @param server content of its `server {}`, after `listen`. */
export async function startNginx(server: string): Promise<Nginx> {
	const folder = temporaryFolder('nginx');
	const port = await freePort();
	writeFileSync(
		join(folder, 'nginx.conf'),
		`daemon off; master_process off; user root; pid ${folder}/nginx.pid; error_log stderr;
events {}
http { access_log off; client_body_temp_path ${folder}/body; server { listen 127.0.0.1:${port} http2; ${server} } }`,
	);
	const program = await startProgram(['nginx', '-p', folder, '-c', join(folder, 'nginx.conf')], (program) =>
		until(
			() => accepts(Number(port)),
			() => `nginx to listen${program.output()}`,
		),
	);
	return { port: Number(port), [Symbol.asyncDispose]: () => program[Symbol.asyncDispose]() };
}

function accepts(port: number): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect(port, '127.0.0.1', () => socket.destroy());
		socket.on('error', () => {}).on('close', (hadError) => resolve(!hadError));
	});
}
