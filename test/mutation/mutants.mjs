/**
 * The lines that matter most, each with the tests that must notice when it goes.
 *
 * @typedef {object} Mutant
 * @property {string} name what the line does
 * @property {string} file
 * @property {string} find text that stands exactly once in the file
 * @property {string} replace what is put there instead
 * @property {readonly string[]} specs the spec files to run
 * @property {string} tests a filter of test names, as `jest -t` takes it
 */

const CONTRACT = ['test/integration/contract.spec.ts'];
const SCRIPTS = 'lib/backend/redis/scripts';

/** @type {readonly Mutant[]} */
const scripts = [
  {
    name: 'acquire takes only a free key (NX)',
    file: `${SCRIPTS}/acquire.lua.ts`,
    find: "ARGV[1], 'NX', 'PX', ARGV[2])",
    replace: "ARGV[1], 'PX', ARGV[2])",
    specs: CONTRACT,
    tests: 'contract: redis locks acquire (answers busy|grants only one)',
  },
  {
    name: 'a resent acquire raises the life of its own key',
    file: `${SCRIPTS}/acquire.lua.ts`,
    find: "if left >= 0 and left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end",
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis locks acquire grants the same token again: raises',
  },
  {
    name: 'a resent acquire never lowers the life of its own key',
    file: `${SCRIPTS}/acquire.lua.ts`,
    find: 'if left >= 0 and left < tonumber(ARGV[2]) then',
    replace: 'if left >= 0 then',
    specs: CONTRACT,
    tests: 'contract: redis locks acquire grants the same token again: never lowers',
  },
  {
    name: 'a fencing token is above the last one, also when the clock is behind',
    file: `${SCRIPTS}/lock-prelude.lua.ts`,
    find: 'first = last + 1',
    replace: 'first = first + 0',
    specs: CONTRACT,
    tests: 'contract: redis locks acquireAll and raiseFence raises a fencing counter',
  },
  {
    name: 'so is that of a lock that was free',
    file: `${SCRIPTS}/acquire.lua.ts`,
    find: 'if last < now then return now end',
    replace: 'if true then return now end',
    specs: ['test/integration/redis-locks.spec.ts'],
    tests: 'fencing tokens rise although the server clock is behind',
  },
  {
    name: 'a fencing token grows by the clock when its counter is lost',
    file: `${SCRIPTS}/acquire.lua.ts`,
    find: 'local now = time[1] * 1000000 + time[2]',
    replace: 'local now = 1',
    specs: ['test/integration/redis-locks.spec.ts'],
    tests: 'L38',
  },
  {
    name: 'nobody takes a free lock that others wait for',
    file: `${SCRIPTS}/acquire.lua.ts`,
    find: "redis.call('EXISTS', KEYS[2]) == 0 and",
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis locks that are waited for waiting in the queue a free key goes',
  },
  {
    name: 'first in, first out',
    file: `${SCRIPTS}/lock-prelude.lua.ts`,
    find: "redis.pcall('ZPOPMIN', KEYS[2])",
    replace: "redis.pcall('ZPOPMAX', KEYS[2])",
    specs: CONTRACT,
    tests:
      'contract: redis locks that are waited for waiting in the queue passes a released key on in the order',
  },
  {
    name: 'who looks again keeps its place',
    file: `${SCRIPTS}/lock-prelude.lua.ts`,
    find: "redis.call('ZADD', KEYS[2], 'NX',",
    replace: "redis.call('ZADD', KEYS[2],",
    specs: CONTRACT,
    tests:
      'contract: redis locks that are waited for waiting in the queue passes a released key on in the order',
  },
  {
    name: 'what is passed on is leased for a short time only',
    file: `${SCRIPTS}/lock-prelude.lua.ts`,
    find: "redis.call('SET', KEYS[1], waiter, 'PX', ${PASSED_ON_LEASE_MS})",
    replace: "redis.call('SET', KEYS[1], waiter, 'PX', 30000)",
    specs: CONTRACT,
    tests: 'contract: redis locks that are waited for waiting in the queue tells the next',
  },
  {
    name: 'a resent give-way knows its next token',
    file: `${SCRIPTS}/give-way.lua.ts`,
    find: 'if holder == ARGV[3] then',
    replace: 'if false then',
    specs: CONTRACT,
    tests: 'contract: redis locks that are waited for giveWay keeps the key',
  },
  {
    name: 'who gives way stands in line again',
    file: `${SCRIPTS}/give-way.lua.ts`,
    find: 'queue(ARGV[3], now)',
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis locks that are waited for giveWay passes the key on',
  },
  {
    name: 'who leaves stands in no queue',
    file: `${SCRIPTS}/release.lua.ts`,
    find: "redis.pcall('ZREM', KEYS[2], ARGV[1])",
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis locks that are waited for who leaves abandon takes a token out',
  },
  {
    name: 'a release passes on to who waits',
    file: `${SCRIPTS}/release.lua.ts`,
    find: "== ARGV[1] and redis.call('EXISTS', KEYS[2]) == 0 then",
    replace: '== ARGV[1] then',
    specs: CONTRACT,
    tests:
      'contract: redis locks that are waited for waiting in the queue passes a released key on in the order',
  },
  {
    name: 'several keys: all or none',
    file: `${SCRIPTS}/acquire-all.lua.ts`,
    find: "if holder and holder ~= ARGV[3 * i - 2] then return {i, redis.call('PTTL', KEYS[i]), now} end",
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis locks acquireAll and raiseFence takes none',
  },
  {
    name: 'several keys: none that others wait for',
    file: `${SCRIPTS}/acquire-all.lua.ts`,
    find: 'if awaited and fresh[i] and',
    replace: 'if false and',
    specs: CONTRACT,
    tests: 'contract: redis locks that are waited for several keys beside a queue acquireAll refuses',
  },
  {
    name: 'many at once: a lock whose fence cannot be kept is not left behind',
    file: `${SCRIPTS}/many.lua.ts`,
    find: "redis.call('DEL', KEYS[i])",
    replace: '',
    specs: ['test/integration/redis-batches.spec.ts'],
    tests: 'each is answered as if alone, whatever stands',
  },
  {
    name: 'many at once: a release compares the token',
    file: `${SCRIPTS}/many.lua.ts`,
    find: 'elseif holder ~= ARGV[3 + a + i] then',
    replace: 'elseif false then',
    specs: ['test/integration/redis-batches.spec.ts'],
    tests: 'each release is answered as if alone',
  },
  {
    name: 'extend compares the token',
    file: `${SCRIPTS}/extend.lua.ts`,
    find: 'elseif holder ~= token then',
    replace: 'elseif false then',
    specs: CONTRACT,
    tests: 'contract: redis locks extend prolongs own leases',
  },
  {
    name: 'extend never shortens a life',
    file: `${SCRIPTS}/extend.lua.ts`,
    find: 'if left >= 0 and left < tonumber(lease) then',
    replace: 'if left >= 0 then',
    specs: CONTRACT,
    tests: 'contract: redis locks extend never shortens',
  },
  {
    name: 'release compares the token',
    file: `${SCRIPTS}/release.lua.ts`,
    find: 'if holder ~= ARGV[1] then return -1 end\nif pass(',
    replace: 'if pass(',
    specs: CONTRACT,
    tests: "contract: redis locks release leaves a stranger's key",
  },
  {
    name: 'begin knows its own resend',
    file: `${SCRIPTS}/begin.lua.ts`,
    find: 'if record.owner ~= owner then',
    replace: 'if true then',
    specs: CONTRACT,
    tests: 'contract: redis idempotency begin the same owner again',
  },
  {
    name: 'begin refuses while the lease lasts',
    file: `${SCRIPTS}/begin.lua.ts`,
    find: 'if record.lease > time then return {4, attempt, record.lease - time} end',
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis idempotency begin (one of many|pending with lease left)',
  },
  {
    name: 'begin compares the fingerprint',
    file: `${SCRIPTS}/begin.lua.ts`,
    find: "if fingerprint ~= '' and record.fingerprint ~= '' and fingerprint ~= record.fingerprint then return {5} end",
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis idempotency begin another fingerprint',
  },
  {
    name: 'complete is refused to an owner that was taken over',
    file: `${SCRIPTS}/complete.lua.ts`,
    find: 'if record and record.owner ~= owner then',
    replace: 'if false then',
    specs: CONTRACT,
    tests: 'contract: redis idempotency complete (while another owner runs|after another owner finished)',
  },
  {
    name: 'a record is released by its owner only',
    file: `${SCRIPTS}/release-record.lua.ts`,
    find: 'record.owner ~= ARGV[1] or ',
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis idempotency release after a takeover',
  },
  {
    name: 'a finished record is never released',
    file: `${SCRIPTS}/release-record.lua.ts`,
    find: " or record.state ~= 'pending'",
    replace: '',
    specs: CONTRACT,
    tests: 'contract: redis idempotency release never removes a finished record',
  },
  {
    name: 'deduct looks its operation up',
    file: `${SCRIPTS}/deduct.lua.ts`,
    find: 'if state then',
    replace: 'if false then',
    specs: CONTRACT,
    tests: 'contract: redis quotas deduct (Q3|Q17|replays)',
  },
  {
    name: 'a refused deduction is not kept',
    file: `${SCRIPTS}/deduct.lua.ts`,
    find: 'if before < amount then',
    replace: 'if before < amount then record(amount, before)',
    specs: CONTRACT,
    tests: 'contract: redis quotas deduct does not keep a refusal',
  },
  {
    name: 'an operation is refunded once',
    file: `${SCRIPTS}/refund.lua.ts`,
    find: "if state == 'refunded' then",
    replace: 'if false then',
    specs: CONTRACT,
    tests: 'contract: redis quotas refund Q4: gives back once',
  },
];

/** @type {readonly Mutant[]} */
const locks = [
  {
    name: 'the deadline counts from before the send',
    file: 'lib/lock/lease-acquirer.ts',
    find: 'lease({ key, token, fencingToken, terms, sentAt, doubtful })',
    replace: 'lease({ key, token, fencingToken, terms, sentAt: instant(this.settings.clock), doubtful })',
    specs: ['test/fault/lock-faults.spec.ts'],
    tests: 'L24',
  },
  {
    name: 'an unanswered acquire is cleaned up',
    file: 'lib/lock/lease-acquirer.ts',
    find: "if (failure.outcome === 'unknown') waiter.doubtful = true;",
    replace: '',
    specs: ['test/fault/lock-faults.spec.ts'],
    tests: 'L1|L2: when the caller gives up',
  },
  {
    name: 'a single try does not overtake those who wait',
    file: 'lib/lock/lease-acquirer.ts',
    find: "if (budget.timeoutMs === 0 && known && known.size > 0 && known.lastAnswer === 'busy') {",
    replace: 'if (false) {',
    specs: ['test/fault/lock-races.spec.ts'],
    tests: 'does not overtake',
  },
  {
    name: 'a renewal that says "not ours" is a loss',
    file: 'lib/lock/watchdog.ts',
    find: "lease.lose({ reason: 'taken' });",
    replace: '',
    specs: ['test/integration/lock-hold.spec.ts'],
    tests: 'L5',
  },
  {
    name: 'a renewal that comes back after the release changes nothing',
    file: 'lib/lock/watchdog.ts',
    find: "if (lease.state !== 'held') return;\n          if (reply",
    replace: 'if (reply',
    specs: ['test/fault/lock-races.spec.ts'],
    tests: 'a renewal that arrives behind the release',
  },
  {
    name: 'maxHold stops the renewals',
    file: 'lib/lock/watchdog.ts',
    find: 'lease.heldMs >= lease.terms.maxHoldMs',
    replace: 'false',
    specs: ['test/integration/lock-hold.spec.ts'],
    tests: 'L8: a task that never ends',
  },
  {
    name: 'a repeated release that finds the key gone has released it',
    file: 'lib/lock/lease-releaser.ts',
    find: "if (typeof answer === 'string') return 'released';",
    replace: "if (typeof answer === 'string') return answer === 'released' ? answer : 'taken';",
    specs: ['test/fault/lock-faults.spec.ts'],
    tests: 'L43',
  },
  {
    name: 'nested holds of one parent take turns',
    file: 'lib/lock/nested-hold.ts',
    find: 'await inTime(turn.granted, budget, closed, name);',
    replace: '',
    specs: ['test/integration/lock-section.spec.ts'],
    tests: 'L45',
  },
  {
    name: 'an extension never shortens the belief',
    file: 'lib/lock/lease.ts',
    find: 'if (validMs - elapsedSince(sentAt, this.clock) > this.validityLeftMs) {',
    replace: '{',
    specs: ['test/integration/lock-hold.spec.ts', 'test/integration/lock-section.spec.ts'],
    tests: 'L14|L19',
  },
];

const ENGINE = ['test/integration/idempotency-engine.spec.ts'];
const ENGINE_FAULTS = ['test/integration/idempotency-faults.spec.ts'];

/** @type {readonly Mutant[]} */
const idempotency = [
  {
    name: 'a begin that was never answered is abandoned',
    file: 'lib/idempotency/idempotency-engine.ts',
    find: '      if (this.unanswered) this.abandon();\n      throw error;',
    replace: '      throw error;',
    specs: ENGINE_FAULTS,
    tests: 'I30',
  },
  {
    name: 'an owner that was taken over answers with the stored reply',
    file: 'lib/idempotency/owned-run.ts',
    find: "answer?.status === 'lostDone'",
    replace: 'false',
    specs: ENGINE_FAULTS,
    tests: 'I13',
  },
  {
    name: 'a lost lock never frees the key',
    file: 'lib/idempotency/settlement.ts',
    find: "if (lost) return handler === 'succeeded'",
    replace: "if (false) return handler === 'succeeded'",
    specs: ENGINE,
    tests: 'a lost lock never frees the key',
  },
  {
    name: 'only success is stored',
    file: 'lib/idempotency/run-once.ts',
    find: 'if (!success) {',
    replace: 'if (false) {',
    specs: ENGINE,
    tests: 'I23',
  },
  {
    name: 'a running record is renewed',
    file: 'lib/idempotency/lease-renewal.ts',
    find: 'if (!this.#inFlight && this.#renewAt <= this.#settings.clock.monotonic()) {',
    replace: 'if (false) {',
    specs: ENGINE,
    tests: 'a run longer than its lease is renewed',
  },
];

const HTTP = ['test/e2e/nest-lock-http.spec.ts'];

/** @type {readonly Mutant[]} */
const nest = [
  {
    name: 'the interceptor is put first, before the application adds its own',
    file: 'lib/nest/instance-providers.ts',
    find: 'config.addGlobalInterceptor(interceptor);',
    replace: 'queueMicrotask(() => setTimeout(() => config.addGlobalInterceptor(interceptor)));',
    specs: HTTP,
    tests: 'Express interceptors N15, N23',
  },
  {
    name: 'an interceptor that does not stand first stops the start',
    file: 'lib/nest/startup-validation.ts',
    find: 'config.getGlobalInterceptors()[0] !== interceptor',
    replace: 'false',
    specs: ['test/e2e/nest-startup.spec.ts'],
    tests: 'another interceptor stands before ours',
  },
  {
    name: 'a client that leaves ends nothing: the inner subscription is detached',
    file: 'lib/nest/guard.interceptor.ts',
    find: 'next.handle().subscribe({',
    replace:
      'new Observable((inner) => { const left = next.handle().subscribe(inner); subscriber.add(left); return left; }).subscribe({',
    specs: HTTP,
    tests: 'Express exclusion N4',
  },
  {
    name: 'the lock is kept until the handler is over, whatever the chain around it says',
    file: 'lib/nest/guarded-section.ts',
    find: 'await handler.idle();',
    replace: '',
    specs: HTTP,
    tests: 'Express interceptors N24: a time-out answers at once',
  },
  {
    name: 'a recursive call is a call of its own',
    file: 'lib/nest/call-mark.ts',
    find: ' && !mark.inProgress.has(layer)',
    replace: '',
    specs: HTTP,
    tests: 'Express other calls.*a recursion',
  },
  {
    name: 'a call that outlives its chain is a call of its own',
    file: 'lib/nest/guarded-section.ts',
    find: 'mark.active = false;',
    replace: '',
    specs: ['test/e2e/nest-outliving-call.spec.ts'],
    tests: 'takes a lock of its own',
  },
  {
    name: 'a method that lost our metadata stops the start',
    file: 'lib/nest/startup-validation.ts',
    find: '} else if (declaring === at) {',
    replace: '} else if (false) {',
    specs: ['test/e2e/nest-startup.spec.ts'],
    tests: 'N26',
  },
  {
    name: 'a placeholder with two values is refused',
    file: 'lib/call/key-template.ts',
    find: 'if (texts.size > 1)',
    replace: 'if (false)',
    specs: HTTP,
    tests: 'Express the key N21',
  },
  {
    name: 'the values of a key are encoded',
    file: 'lib/call/key-template.ts',
    find: 'key += encode(textOf(wanted, template, call))',
    replace: 'key += textOf(wanted, template, call)',
    specs: ['test/unit/call-key-template.spec.ts'],
    tests: '',
  },
];

export const mutants = [...scripts, ...locks, ...idempotency, ...nest];
