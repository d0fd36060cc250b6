import type { X509Certificate } from 'node:crypto';
import { isCall } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { HEADERS_TOO_LARGE, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { Principal, VerifiedToken } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import { refuseOtherHolder } from '@mtls-edge-proxy/gate/identity/bound-token.ts';
import { Quotas } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import { NOTHING_REVOKED, RevokedTokens } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { Trust } from '@mtls-edge-proxy/gate/identity/trust.ts';
import { Authenticator } from '@mtls-edge-proxy/gate/shared/authenticator.ts';
import { bodyMode, judgesLengthFirst } from '#body';
import type { Config, RouteConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import { quote } from '../../config/wording.ts';
import type { StartFiles } from '../../control/files/inspection.ts';
import { admitLength, UNDECLARED } from '../../gates/body-limit.ts';
import { type Correlation, correlate, type Identified } from '../../gates/correlation.ts';
import type { Identifiers } from '../../gates/field-kinds.ts';
import { refuseMalformedTimeout } from '../../gates/grpc-timeout.ts';
import { doubtIn } from '../../gates/path.ts';
import { createTracing } from '../../gates/trace-context.ts';
import { admitTarget, refuseProtocolChange } from '../../gates/upgrade.ts';
import { admitHandshake } from '../../gates/web-socket.ts';
import { type Client, judgeClient } from './caller.ts';
import { fetchKeysFor } from './issuer-keys.ts';
import { placeOf } from './places.ts';
import { answered, type Explanation, outcomeOf, Reports } from './report.ts';
import { type ReadRequest, type RequestSpec, readRequest } from './request.ts';
import { judgeCaller, judgeForwarding, judgeRoute, judgeUpstream, type RunningProxy, routeOf } from './route-gates.ts';
import { readingInWords } from './routing.ts';
import { responseWords, type StreamContext, webSocketWords } from './stream-words.ts';
import { readToken } from './token.ts';
import { notesOnHead, upstreamHead } from './upstream-head.ts';

/**
 * Judges a request gate by gate, as a proxy with these files would. Each verdict comes from the gate itself, on the values that the
 * proxy would pass. This file has the order of the gates, which is that of `data/request/admit.ts`, and the words. Gates after a
 * refusal are asked too, if their input is known.
 */

interface ExplainSettings extends RunningProxy {
	/** Leaf first. */
	readonly clientChain: readonly X509Certificate[] | undefined;
	/** For `x-forwarded-for`. */
	readonly peer: string;
	/** Keys of issuers are not fetched. */
	readonly offline: boolean;
	/** Wall-clock time, seconds since the epoch. */
	readonly nowSeconds: number;
}

/** Placeholder for digits that are random in each request. */
const RANDOM_DIGIT = 'x';

export async function explain(
	files: Pick<StartFiles, 'config' | 'tls' | 'identity' | 'remotes'>,
	spec: RequestSpec,
	settings: ExplainSettings,
): Promise<Explanation> {
	const { config, tls } = files;
	const { nowSeconds } = settings;
	const reports = new Reports();
	const notes: string[] = [];

	const client = await judgeClient(
		settings.clientChain,
		config,
		tls,
		settings.peer,
		spec.protocol,
		nowSeconds,
		reports,
	);
	const request = readRequest(spec, {
		maxHeaderBytes: config.limits.maxHeaderBytes,
		apart: identifiersOf(config),
		extendsConnect: config.routes.some(({ webSocket }) => webSocket !== undefined),
	});
	judgeHead(request, reports);
	const { token, principal } = await judgeToken(request.authorization, files, settings, reports, notes);
	judgeHolder(token, client, reports);
	tellTenantLimits(token, files, reports);

	const isExtended = spec.protocol === 'h2' && request.head?.webSocket !== undefined;
	const target = admitTarget(request.method, request.target, isExtended);
	reports.judged('path', target instanceof Rejection ? target : undefined, ...pathWords(request.target));
	const route = routeOf(target, config);
	const isGrpc = isCall(request.method, request);
	const streams = { config, isGrpc, bodyMode, token };
	judgeProtocol(request, route, isExtended, streams, reports);
	judgeGrpcTimeout(request, reports);
	// The route's body limits apply, even if the length is judged before the route.
	if (judgesLengthFirst) judgeLength(request, spec, config, route, reports);
	judgeRoute(target, files, reports);
	const forwardedTarget = judgeForwarding(route, target, request, files, reports);
	await judgeCaller(route, client, token, files, reports);
	if (route?.rate !== undefined)
		reports.notAsked('route rate', `${route.rate.rps} requests/s, burst ${route.rate.burst}, for each tenant`);
	if (!judgesLengthFirst) judgeLength(request, spec, config, route, reports);
	const isWebSocket = request.head?.webSocket !== undefined;
	if (route !== undefined) judgeUpstream(route, settings, isWebSocket ? [] : responseWords(route, streams), reports);

	const { outcome, endsAt } = outcomeOf(reports.list);
	const passes = outcome === 'passes' && principal !== undefined && route !== undefined;
	const head = passes
		? await upstreamHead(route, principal, { ...request, target: forwardedTarget! }, spec, client, correlatorOf(config))
		: undefined;
	if (passes) notes.push(...notesOnHead(route, isWebSocket));
	return {
		configPath: config.path,
		method: spec.method,
		target: spec.target,
		protocol: spec.protocol,
		isGrpc,
		bodyMode,
		gates: reports.list,
		outcome,
		endsAt,
		route: route?.prefix,
		upstream: route && upstreamKey(route.upstream),
		upstreamHead: head,
		notes,
	};
}

function judgeHead({ malformed, unknownMethod, badFields, fields, method }: ReadRequest, reports: Reports): void {
	if (malformed !== undefined) {
		const isLong = malformed.rejection?.is(HEADERS_TOO_LARGE);
		const details = isLong ? ['longer than limits.max_header_bytes'] : ['this is not HTTP, so the rest cannot be read'];
		reports.add({ gate: 'request head', verdict: 'refused', refusal: malformed, details });
		return;
	}
	reports.ok('request head');
	reports.judged(
		'method',
		unknownMethod,
		...(unknownMethod === undefined ? [] : [`${quote(method)} is not a known method`]),
	);
	const details = fields.flatMap(({ name, fate }) => {
		const words = FATES[fate];
		return words === undefined ? [] : [`${name.toLowerCase()}: ${words}`];
	});
	reports.judged('header fields', badFields, ...details);
}

const FATES: Readonly<Record<ReadRequest['fields'][number]['fate'], string | undefined>> = {
	forwarded: undefined,
	rewritten: undefined,
	'hop-by-hop': 'not forwarded: it is only for this connection',
	own: 'not forwarded: only the proxy says who is calling',
	path: 'not forwarded: some servers use it instead of the path',
	folded: 'not forwarded: some servers read its name as a field that only the proxy sets',
	'named by connection': 'not forwarded: the Connection field names it',
};

interface TokenVerdict {
	/** The content of the token, even if it is refused. */
	readonly token: VerifiedToken | undefined;
	/** Present if the token is admitted. */
	readonly principal: Principal | undefined;
}

async function judgeToken(
	authorization: string | null | undefined,
	{ config, tls, identity, remotes }: Pick<StartFiles, 'config' | 'tls' | 'identity' | 'remotes'>,
	{ nowSeconds, offline }: ExplainSettings,
	reports: Reports,
	notes: string[],
): Promise<TokenVerdict> {
	const { stateDir } = config;
	const keys = await fetchKeysFor(authorization, identity, { remotes, offline, stateDir, nowSeconds });
	if (keys.note !== undefined) notes.push(keys.note);
	const trust = new Trust(keys.identity);
	const revoked = new RevokedTokens(tls.clients?.revoked ?? NOTHING_REVOKED);
	const authenticator = new Authenticator(trust, undefined);
	authenticator.refuseRevoked(revoked);
	const verdict = authenticator.authenticate(authorization, nowSeconds);
	const judges = { trust, issuers: keys.identity.issuers, revoked, config, nowSeconds };
	const { checks, token } = readToken(authorization, judges);
	if (!(verdict instanceof Rejection)) {
		reports.add({ gate: 'token', verdict: 'ok', details: [], checks });
		return { token: verdict, principal: verdict };
	}
	if (keys.isMissing) {
		const details = [`cannot be decided: ${keys.note}`];
		reports.add({ gate: 'token', verdict: 'unknown', refusal: answered(verdict), details, checks });
	} else {
		reports.add({ gate: 'token', verdict: 'refused', refusal: answered(verdict), details: [], checks });
	}
	return { token, principal: undefined };
}

function judgeHolder(token: VerifiedToken | undefined, { connection, hasCertificate }: Client, reports: Reports): void {
	if (token?.confirmation === undefined) return;
	const wanted = `the token is bound to sha256:${token.confirmation.toString('hex')}`;
	if (!hasCertificate) return reports.unknown('bound token', wanted, 'give --client-cert');
	const thumbprint = connection.certificate?.thumbprint;
	const has = `the client certificate is sha256:${thumbprint?.toString('hex')}`;
	reports.judged('bound token', refuseOtherHolder(token.confirmation, thumbprint), wanted, has);
}

/** Reports the limits; only the running proxy knows how much of them is left. */
function tellTenantLimits(
	token: VerifiedToken | undefined,
	{ config, identity }: Pick<StartFiles, 'config' | 'identity'>,
	reports: Reports,
): void {
	if (token === undefined) return;
	const { tenant, claimedRps } = token;
	const quotas = new Quotas(identity.quotas, config.tenantRps, (_, limit) => ({
		limit,
		taken: 0,
		tryClaim: () => true,
		release: () => {},
	}));
	const { rate, slots } = quotas.of(tenant, claimedRps);
	const nth = config.tenants.findIndex(({ name }) => name === tenant);
	const sources = {
		tenants: placeOf(config, `tenants[${nth}].name`),
		claim: 'the rate claim of the token',
		default: placeOf(config, 'tenant_rps'),
	};
	const from = sources[quotas.sourceOf(tenant, claimedRps)];
	const needs = 'needs the running proxy';
	if (rate === undefined) reports.ok('tenant rate', `no limit for the tenant ${quote(tenant)}, from ${from}`);
	else {
		const limit = `${rate.rps} requests/s, burst ${rate.burst}, for the tenant ${quote(tenant)}`;
		reports.notAsked('tenant rate', `${limit}, from ${from}; ${needs}`);
	}
	if (slots !== undefined) {
		reports.notAsked('tenant concurrency', `${slots.limit} at once, from ${sources.tenants}; ${needs}`);
	}
}

function pathWords(target: string): string[] {
	const doubt = doubtIn(target);
	if (doubt === undefined) return [];
	if (doubt.reading !== undefined)
		return [`some upstreams read it as ${readingInWords(doubt.reading)}: ${doubt.refusal.reason}`];
	return [`${quote(doubt.part)} at character ${doubt.at + 1}: ${doubt.refusal.reason}`];
}

function judgeProtocol(
	{ method, head }: ReadRequest,
	route: RouteConfig | undefined,
	isExtended: boolean,
	streams: StreamContext,
	reports: Reports,
): void {
	if (head?.webSocket !== undefined) {
		const isTaken = route?.webSocket !== undefined;
		const verdict = admitHandshake(head.webSocket, { isTaken, isExtended, method });
		const refusal = verdict instanceof Rejection ? verdict : undefined;
		const words = isTaken ? [IS_WEB_SOCKET, ...webSocketWords(route, streams)] : [NO_WEB_SOCKETS];
		return reports.judged('protocol change', refusal, ...words);
	}
	const refusal = refuseProtocolChange(method, head?.wantsUpgrade ?? false);
	if (refusal === undefined) return reports.ok('protocol change');
	reports.judged(
		'protocol change',
		refusal,
		head?.wantsUpgrade ? 'the upgrade field asks for another protocol' : quote(method),
	);
}

const IS_WEB_SOCKET = 'a WebSocket, which its route accepts; it is a request in flight until it ends';
const NO_WEB_SOCKETS = 'a WebSocket: no route with websocket = true matches the path';

function judgeGrpcTimeout({ method, head }: ReadRequest, reports: Reports): void {
	if (head?.grpcTimeout === undefined || !isCall(method, head)) return;
	const words = head.grpcTimeout === null ? 'one value of at most 8 digits and a unit: H, M, S, m, u or n' : undefined;
	reports.judged('grpc timeout', refuseMalformedTimeout(head.grpcTimeout), ...(words === undefined ? [] : [words]));
}

function judgeLength(
	{ head }: ReadRequest,
	{ bodyBytes }: RequestSpec,
	config: Config,
	route: RouteConfig | undefined,
	reports: Reports,
): void {
	if (head === undefined) return;
	if (head.bodyLength === 0) return reports.ok('body length', 'no body');
	const own = route?.requestLimits?.maxBodyBytes;
	const most = own ?? config.limits.maxRequestBodyBytes;
	const key =
		own === undefined ? 'limits.max_request_body_bytes' : `routes[${config.routes.indexOf(route!)}].max_body_bytes`;
	// A body without a declared length is cut off at the limit, as it arrives.
	const length = head.bodyLength === UNDECLARED ? (bodyBytes ?? UNDECLARED) : head.bodyLength;
	const limit = `at most ${most} bytes, ${placeOf(config, key)}`;
	const has = length === UNDECLARED ? 'length not declared: counted as it arrives' : `${length} bytes`;
	reports.judged('body length', admitLength(length, most), `${has}; ${limit}`);
}

function identifiersOf({ trace, log }: Config): Identifiers {
	if (log.requestId) return 'trace and request';
	return trace === undefined ? 'none' : 'trace';
}

/** Handles identifiers like the running proxy. A trace that begins at the proxy is shown as not sampled. */
function correlatorOf({ trace, log: { requestId } }: Config): ((head: Identified) => Correlation) | undefined {
	const hex = (digits: number) => RANDOM_DIGIT.repeat(digits);
	if (trace !== undefined) return createTracing({ ratio: 0, requestIds: requestId }, hex);
	return requestId ? (head) => correlate(head, hex) : undefined;
}
