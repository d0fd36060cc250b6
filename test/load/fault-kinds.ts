/** Every kind of fault that bad upstreams play, over both protocols. */
import { HTTP1_KINDS, type Http1Kind } from './http1-fault-kinds.ts';
import { HTTP2_KINDS, type Http2Kind } from './http2-fault-kinds.ts';

export type FaultKind = Http1Kind | Http2Kind;

export const FAULT_KINDS: readonly FaultKind[] = [...HTTP1_KINDS, ...HTTP2_KINDS];
