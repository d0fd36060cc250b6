import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
	ConnectionTimeoutError,
	ErrorReply,
	ReconnectStrategyError,
	SocketClosedUnexpectedlyError,
} from '@redis/client';
import { failureOf, StoreFailure } from '../../../../packages/proxy/src/control/store/failure.ts';

const SECRET = 'hunter2';
const coded = (code: string, message = 'connect') => Object.assign(new Error(`${message} ${SECRET}`), { code });

describe('the reason of a failed call to the store', () => {
	for (const [error, reason, code] of [
		[new ErrorReply(`NOAUTH Authentication required. ${SECRET}`), 'credentials', 'NOAUTH'],
		[new ErrorReply('WRONGPASS invalid username-password pair or user is disabled.'), 'credentials', 'WRONGPASS'],
		[new ErrorReply('ERR invalid password'), 'credentials', 'ERR'],
		[new ErrorReply("NOPERM this user has no permissions to run the 'evalsha' command"), 'permission', 'NOPERM'],
		// Redis 7.0, where a command of a script is not allowed, and in words of other versions.
		[new ErrorReply("ERR The user executing the script can't run this command or subcommand"), 'permission', 'ERR'],
		[new ErrorReply("ERR The user executing the script can't access at least one of the keys"), 'permission', 'ERR'],
		[new ErrorReply('ERR ACL failure in script: User edge has no permissions'), 'permission', 'ERR'],
		[new ErrorReply("READONLY You can't write against a read only replica."), 'read_only', 'READONLY'],
		[new ErrorReply('ERR Error running script: @user_script:1: -READONLY You can not'), 'read_only', 'READONLY'],
		[new ErrorReply('MISCONF Redis is configured to save RDB snapshots'), 'read_only', 'MISCONF'],
		[new ErrorReply("OOM command not allowed when used memory > 'maxmemory'."), 'full', 'OOM'],
		[new ErrorReply('LOADING Redis is loading the dataset in memory'), 'loading', 'LOADING'],
		[new ErrorReply('CLUSTERDOWN The cluster is down'), 'failing_over', 'CLUSTERDOWN'],
		[new ErrorReply('BUSY Redis is busy running a script.'), 'busy', 'BUSY'],
		[new ErrorReply("ERR unknown command 'EVALSHA'"), 'unsupported', 'ERR'],
		[new ErrorReply(`WRONGTYPE ${SECRET}`), 'refused', 'WRONGTYPE'],
		[new ErrorReply(`\u001b[31m${SECRET}`), 'refused', undefined],
		[coded('ECONNREFUSED'), 'unreachable', 'ECONNREFUSED'],
		[coded('ENOTFOUND'), 'unreachable', 'ENOTFOUND'],
		[coded('ETIMEDOUT'), 'timeout', 'ETIMEDOUT'],
		[coded('SELF_SIGNED_CERT_IN_CHAIN'), 'tls', 'SELF_SIGNED_CERT_IN_CHAIN'],
		[coded('UNABLE_TO_VERIFY_LEAF_SIGNATURE'), 'tls', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
		[coded('ERR_TLS_CERT_ALTNAME_INVALID'), 'tls', 'ERR_TLS_CERT_ALTNAME_INVALID'],
		[coded('ERR_SSL_WRONG_VERSION_NUMBER'), 'tls', 'ERR_SSL_WRONG_VERSION_NUMBER'],
		[new AggregateError([coded('ECONNREFUSED')]), 'unreachable', 'ECONNREFUSED'],
		[new ReconnectStrategyError(new Error('x'), coded('ECONNRESET')), 'unreachable', 'ECONNRESET'],
		[new ConnectionTimeoutError(), 'timeout', undefined],
		[new SocketClosedUnexpectedlyError(), 'unreachable', undefined],
		[new Error(`Unknown RESP type 72 "H" ${SECRET}`), 'malformed', undefined],
		[new Error(`redis://u:${SECRET}@store`), 'unreachable', undefined],
		[SECRET, 'refused', undefined],
		[new StoreFailure('malformed'), 'malformed', undefined],
	] as const) {
		it(`has its own reason: ${error instanceof Error ? error.message.slice(0, 40) : error}`, () => {
			const failure = failureOf(error);
			assert.equal(failure.reason, reason);
			assert.equal(failure.code, code);
			assert.ok(!`${failure.message} ${failure.stack} ${JSON.stringify(failure)}`.includes(SECRET));
		});
	}
});
