import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  ClassSerializerInterceptor,
  ConflictException,
  SerializeOptions,
  UseInterceptors,
} from '@nestjs/common';
import {
  Args,
  Field,
  GraphQLModule,
  ID,
  Int,
  Mutation,
  ObjectType,
  Parent,
  Query,
  ResolveField,
  Resolver,
} from '@nestjs/graphql';
import { Exclude } from 'class-transformer';
import type { Lock } from '../../lib/lock/lock.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { everythingIn, Served } from './idempotency-http.js';
import { gate, PLATFORMS } from './nest-platforms.js';

@ObjectType()
class Receipt {
  @Field(() => ID)
  id!: string;

  @Field(() => Int)
  run!: number;

  @Field()
  at!: Date;

  @Exclude()
  password = 'secret-password';
}

/** What the resolvers below meet. */
class Work {
  runs = 0;
  hold = gate();

  receipt(id: string): Receipt {
    return Object.assign(new Receipt(), { id, run: ++this.runs, at: new Date(0) });
  }
}

@Resolver(() => Receipt)
class Payments {
  constructor(private readonly work: Work) {}

  @Mutation(() => Receipt)
  @UseInterceptors(ClassSerializerInterceptor)
  @SerializeOptions({})
  @Idempotent()
  pay(@Args('id', { type: () => ID }) id: string): Receipt {
    return this.work.receipt(id);
  }

  @Idempotent({ key: 'refund:<data.id>' })
  @Mutation(() => Int, { nullable: true })
  async refund(
    @Args('id', { type: () => ID }) _id: string,
    @Args('how', { nullable: true }) how?: string,
  ): Promise<number | null> {
    const run = ++this.work.runs;
    if (how === 'wait') await this.work.hold.opened;
    if (how === 'fail') throw new ConflictException('declined');
    return how === 'null' ? null : run;
  }

  @Mutation(() => Int)
  @Idempotent({ header: 'X-Request-Id', required: true, scope: '<headers.x-user>' })
  scoped(): number {
    return ++this.work.runs;
  }

  @Mutation(() => String)
  @DistributedLock('lock:<id>', { waitTimeout: 0 })
  locked(@Args('id', { type: () => ID }) id: string, @CurrentLock() lock: Lock): string {
    return `${id} ${lock.held} ${lock.keys.join()}`;
  }

  @Query(() => Int)
  @Idempotent()
  read(): number {
    return ++this.work.runs;
  }

  @ResolveField(() => String)
  @DistributedLock('lock:field:<args.0.id>')
  async note(@Parent() { id }: Receipt): Promise<string> {
    return `note of ${id}`;
  }
}

interface Answer {
  data?: Record<string, any> | null;
  errors?: Array<{
    message: string;
    extensions: { code: string; status?: number; originalError?: { code?: string } };
  }>;
}

describe.each(PLATFORMS)('GraphQL on %s', (platform) => {
  let server: RedisServer;
  let served: Served;
  let work: Work;
  let order = 0;
  let id: string;

  beforeAll(async () => {
    server = await RedisServer.start();
    served = await Served.start(platform, server, [], {
      imports: [
        GraphQLModule.forRoot<ApolloDriverConfig>({
          driver: ApolloDriver,
          autoSchemaFile: true,
          graphiql: false,
        }),
      ],
      providers: [Payments, Work],
    });
    work = served.app.get(Work);
  });
  afterAll(async () => {
    await served?.close();
    await server.stop();
  });
  beforeEach(() => {
    id = `g${++order}`;
    work.runs = 0;
    work.hold = gate();
  });

  async function ask(query: string, headers: Record<string, string> = {}): Promise<Answer> {
    const { text } = await served.send('/graphql', { headers, body: { query } });
    return JSON.parse(text) as Answer;
  }
  const codeOf = ({ errors }: Answer) => errors?.[0]?.extensions.originalError?.code;

  it('a repeated mutation is a replay, with its dates, through the schema again', async () => {
    const query = `mutation { pay(id: "${id}") { id run at note } }`;
    const first = await ask(query, { 'idempotency-key': id });
    expect(first).toEqual({
      data: { pay: { id, run: 1, at: '1970-01-01T00:00:00.000Z', note: `note of ${id}` } },
    });
    expect(await ask(query, { 'idempotency-key': id })).toEqual(first);
    expect(work.runs).toBe(1);
    // a retry may ask for less: what was stored is the value, not the document's answer
    expect(await ask(`mutation { pay(id: "${id}") { run } }`, { 'idempotency-key': id })).toEqual({
      data: { pay: { run: 1 } },
    });
  });

  it('I4: a field that a serialiser hides is not in Redis', async () => {
    await ask(`mutation { pay(id: "${id}") { id } }`, { 'idempotency-key': id });
    expect((await everythingIn(server)).includes('secret-password')).toBe(false);
  });

  it('two mutations in one document are two executions and two records', async () => {
    const query = `mutation { a: pay(id: "x") { run } b: pay(id: "y") { run } c: refund(id: "${id}") }`;
    const first = await ask(query, { 'idempotency-key': id });
    expect(first).toEqual({ data: { a: { run: 1 }, b: { run: 2 }, c: 3 } });
    expect(await ask(query, { 'idempotency-key': id })).toEqual(first);
    expect(work.runs).toBe(3);
  });

  it('other arguments under the same header are another request', async () => {
    await ask(`mutation { pay(id: "${id}") { run } }`, { 'idempotency-key': id });
    const other = await ask(`mutation { pay(id: "other") { run } }`, { 'idempotency-key': id });
    expect([codeOf(other), other.errors![0]!.extensions.code]).toEqual([
      'IDEMPOTENCY_MISMATCH',
      'BAD_USER_INPUT',
    ]);
    expect(work.runs).toBe(1);
  });

  it('I34: a business key is one record with IdempotencyService; null is replayed as null', async () => {
    const query = `mutation { refund(id: "${id}", how: "null") }`;
    expect(await ask(query)).toEqual({ data: { refund: null } });
    expect(await ask(query)).toEqual({ data: { refund: null } });
    const again = await served.app.get(IdempotencyService).execute(`refund:${id}`, () => 'never');
    expect(again).toEqual({ value: null, replayed: true, attempt: 1 });
    expect(work.runs).toBe(1);
  });

  it('a repeat while the first runs is an error with its code; a failure frees the key', async () => {
    const first = ask(`mutation { refund(id: "${id}", how: "wait") }`);
    await waitFor(() => work.runs === 1);
    const busy = await ask(`mutation { refund(id: "${id}") }`);
    expect([codeOf(busy), busy.errors![0]!.extensions.status]).toEqual(['IDEMPOTENCY_IN_PROGRESS', 409]);
    work.hold.open();
    expect(await first).toEqual({ data: { refund: 1 } });

    const failed = await ask(`mutation { refund(id: "${id}-f", how: "fail") }`);
    expect(failed.errors![0]!.message).toBe('declined');
    expect(await ask(`mutation { refund(id: "${id}-f") }`)).toEqual({ data: { refund: 3 } });
  });

  it('I25: a required header, and a scope from the headers', async () => {
    const as = (user: string, key?: string) =>
      ask('mutation { scoped }', { 'x-user': user, ...(key === undefined ? {} : { 'x-request-id': key }) });
    expect(codeOf(await as('ann'))).toBe('IDEMPOTENCY_KEY');
    expect([await as('ann', id), await as('bob', id), await as('ann', id)]).toEqual([
      { data: { scoped: 1 } },
      { data: { scoped: 2 } },
      { data: { scoped: 1 } },
    ]);
  });

  it('a query changes nothing: it passes through', async () => {
    await ask('{ read }', { 'idempotency-key': id });
    expect(await ask('{ read }', { 'idempotency-key': id })).toEqual({ data: { read: 2 } });
  });

  it('N9: a mutation and a resolved field are locked, and a busy lock is a 409 with its code', async () => {
    const query = `mutation { locked(id: "${id}") }`;
    expect(await ask(query)).toEqual({ data: { locked: `${id} true lock:${id}` } });
    const held = await served.app.get(LockService).acquire(`lock:${id}`);
    expect(codeOf(await ask(query))).toBe('LOCK_BUSY');
    await held.release();

    const acquired: string[] = [];
    const watched = served.app
      .get(LockService)
      .events.subscribe(({ type, key }) => type === 'acquired' && acquired.push(key));
    await ask(`mutation { pay(id: "${id}") { note } }`);
    watched.unsubscribe();
    expect(acquired).toEqual([`lock:field:${id}`]);
  });
});
