/** Command lines to paste into a shell while the demo is up: one for each kind of outcome. */
import type { Stage } from './act.ts';
import { TENANT_RPS, type Tenant } from './workspace.ts';

/** Command lines, each with a remark on what it shows. They work in the directory where the demo was started. */
export function curlLines({ workspace, proxy, upstreams }: Pick<Stage, 'workspace' | 'proxy' | 'upstreams'>): string {
	const { paths } = workspace;
	const url = `https://localhost:${proxy.port}`;
	const certificates = `--cacert ${quote(paths.ca)} --cert ${quote(paths.clientCert)} --key ${quote(paths.clientKey)}`;
	const token = (tenant: Tenant) => `-H "authorization: Bearer $(cat ${quote(paths.token[tenant])})"`;
	const curl = (rest: string, tenant: Tenant = 'tenant-a') => `curl -i ${certificates} ${token(tenant)} ${rest}`;
	const switchA = (what: 'fail' | 'heal') => `curl -X POST http://${upstreams.a.authority}/_demo/${what}`;
	const lines: [what: string, ...commands: string[]][] = [
		['200, HTTP/1.1', curl(`--http1.1 ${url}/svc-a/hello`)],
		['200, HTTP/2, the other tenant and route', curl(`--http2 ${url}/svc-b/hello`, 'tenant-b')],
		['200, from one of two addresses', curl(`${url}/svc-c/hello`)],
		['401: no token', `curl -i ${certificates} ${url}/svc-a/hello`],
		['401: bad token', `curl -i ${certificates} -H "authorization: Bearer not.a.token" ${url}/svc-a/hello`],
		['400: a dot segment, also when it is encoded', curl(`--path-as-is ${url}/svc-a/%2e%2e/x`)],
		['404: no route', curl(`${url}/nowhere`)],
		[
			`429: more than ${TENANT_RPS} at once`,
			`curl -s -o /dev/null -w '%{http_code}\\n' ${certificates} ${token('tenant-a')} "${url}/svc-a/[1-12]"`,
		],
		['no handshake: no client certificate', `curl --cacert ${quote(paths.ca)} ${url}/svc-a/hello`],
		['503: the upstream fails', switchA('fail'), curl(`${url}/svc-a/hello`)],
		['200 again', switchA('heal'), curl(`${url}/svc-a/hello`)],
		[`reload, after a change of ${paths.config} or of a certificate`, `kill -USR1 ${proxy.pid}`],
		['metrics', `curl http://127.0.0.1:${proxy.metricsPort}/metrics`],
	];
	return lines.map(([what, ...commands]) => `# ${what}\n${commands.join('\n')}\n`).join('\n');
}

/** For a POSIX shell; plain paths stay as they are. */
function quote(path: string): string {
	return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
