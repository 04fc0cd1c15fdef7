import { resolve } from 'node:path';
import { Child } from '../support/child.js';
import { PostgresServer } from '../support/postgres-server.js';

const DEMO = resolve(__dirname, '../../sample-app/demo/main.ts');
const SMALL = ['--orders', '40', '--buyers', '60', '--units', '20'];
const FIELDS = [
  'callbacks',
  'ordersPaid',
  'paidTwice',
  'handlerRuns',
  'stoppedByDatabase',
  'units',
  'sold',
  'oversold',
  'replayed',
  'rejectedInFlight',
  'differencesFound',
  'differencesAfterRepair',
  'quotaSpent',
  'quotaRight',
  'backend',
  'ok',
];
/** Whatever happened on the way. */
const RIGHT = {
  callbacks: 200,
  ordersPaid: 40,
  paidTwice: 0,
  units: 20,
  sold: 20,
  oversold: 0,
  differencesAfterRepair: 0,
  quotaSpent: 40,
  quotaRight: true,
  ok: true,
};

jest.setTimeout(240_000);

/** Runs the demo to its end. */
async function demo(args: string[], env: Record<string, string> = {}) {
  const child = Child.start(DEMO, { args, env: { REDIS_URL: '', DATABASE_URL: '', NODE_ENV: '', ...env } });
  const { code } = await child.exited;
  const lines = child.text.trimEnd().split('\n');
  const last = lines.at(-1) ?? '';
  return { code, text: child.text, verdict: last.startsWith('{') ? JSON.parse(last) : undefined };
}

describe('the demo', () => {
  it('pays every order once and sells every unit once, through a kill -9 and a Redis that forgets', async () => {
    const { code, text, verdict } = await demo(SMALL);
    expect({ verdict, text }).toMatchObject({ verdict: { ...RIGHT, backend: 'redis' } });
    expect(Object.keys(verdict)).toEqual(FIELDS);
    expect(verdict.handlerRuns).toBeGreaterThanOrEqual(40);
    expect(verdict.replayed).toBeGreaterThan(0);
    expect(text).toMatch(/killed with SIGKILL/);
    expect(text).toMatch(/is back/);
    expect(text).toMatch(/Redis was killed, and is back with the older snapshot/);
    expect(verdict.differencesFound).toBeGreaterThan(0);
    expect(text).toMatch(/Redis has lost \S+, which took 1 for order/);
    expect(code).toBe(0);
  });

  it('does the same on Postgres', async () => {
    const postgres = await PostgresServer.start();
    try {
      const { code, text, verdict } = await demo(SMALL, { DATABASE_URL: await postgres.createDatabase() });
      expect({ verdict, text }).toMatchObject({ verdict: { ...RIGHT, backend: 'redis' } });
      expect(text).toMatch(/Orders live in the Postgres/);
      expect(code).toBe(0);
    } finally {
      await postgres.stop();
    }
  });

  it('is not ok with the decorators switched off: the database has to stop what they would have', async () => {
    const { code, text, verdict } = await demo([...SMALL, '--without-module']);
    expect({ verdict, text }).toMatchObject({
      verdict: { callbacks: 200, replayed: 0, rejectedInFlight: 0, differencesFound: null, ok: false },
    });
    expect(verdict.stoppedByDatabase).toBeGreaterThan(0);
    expect(verdict.handlerRuns).toBeGreaterThan(100);
    expect(text).toMatch(/NOT OK: the database had to stop \d+ writes/);
    expect(code).toBe(1);
  });

  it('runs in one process, without a kill, where there is no Redis', async () => {
    const { code, text, verdict } = await demo(SMALL, { REDIS_SERVER: '', PATH: '/nonexistent' });
    expect({ verdict, text }).toMatchObject({
      verdict: { ...RIGHT, stoppedByDatabase: 0, differencesFound: 0, backend: 'memory' },
    });
    expect(text).not.toMatch(/SIGKILL/);
    expect(code).toBe(0);
  });

  it.each([[['--orders', 'many']], [['--orders', '0']], [['--nonsense']]])(
    'says what is wrong with %j',
    async (args) => {
      const { code, text } = await demo(args);
      expect(code).toBe(1);
      expect(text).toMatch(new RegExp(`^The demo could not run: .*${args[0]}`));
    },
  );
});
