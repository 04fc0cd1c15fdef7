import type { INestApplication, ModuleMetadata, Provider, Type } from '@nestjs/common';
import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RedisLockModuleOptions } from '../../lib/nest/module-options.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { RedisServer } from '../support/redis-server.js';
import { startApp, type AppOptions, type Platform } from './nest-platforms.js';

/** A reply as it came over the wire. */
export interface Reply {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
  text: string;
}

export interface Sent {
  method?: string;
  /** Undefined: no header. An array is sent as several headers. */
  key?: string | string[];
  headers?: Record<string, string | string[]>;
  /** Sent as JSON. */
  body?: unknown;
  /** Instead of `body`: sent as it is; say its type in `headers`. */
  text?: string;
}

/** An application that serves on a port, on a real Redis. */
export class Served {
  private constructor(
    readonly app: INestApplication,
    private readonly port: number,
  ) {}

  static async start(
    platform: Platform,
    server: RedisServer | string,
    controllers: Type[],
    options: AppOptions & {
      providers?: Provider[];
      imports?: ModuleMetadata['imports'];
      module?: RedisLockModuleOptions;
    } = {},
  ): Promise<Served> {
    const { providers = [], imports = [], module = {}, ...app } = options;
    const redis = typeof server === 'string' ? server : server.url;
    const started = await startApp(
      platform,
      { imports: [RedisLockModule.forRoot({ redis, ...module }), ...imports], controllers, providers },
      app,
    );
    await started.listen(0, '127.0.0.1');
    return new Served(started, (started.getHttpServer().address() as AddressInfo).port);
  }

  /** Sends a request; `abort()` it to be a client that leaves. */
  open(path: string, { method = 'POST', key, headers = {}, body, text }: Sent = {}): ClientRequest {
    const payload = text ?? (body === undefined ? undefined : JSON.stringify(body));
    const request = http.request({
      port: this.port,
      host: '127.0.0.1',
      path,
      method,
      agent: false,
      headers: {
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...headers,
      },
    });
    request.on('error', () => undefined);
    request.end(payload);
    return request;
  }

  send(path: string, sent: Sent = {}): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const request = this.open(path, sent);
      request.on('error', reject);
      request.on('response', (response: IncomingMessage) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const replied = Buffer.concat(chunks);
          resolve({
            status: response.statusCode!,
            headers: response.headers,
            body: replied,
            text: replied.toString(),
          });
        });
      });
    });
  }

  close(): Promise<void> {
    return this.app.close();
  }
}

/** Headers of one moment or one connection, and what the replay says of itself: nothing to compare. */
const MOMENTARY = ['date', 'connection', 'keep-alive', 'idempotent-replayed'];

/** What of a reply must be the same in its replay. */
export function comparable({ status, headers, body }: Reply): object {
  const kept = Object.entries(headers).filter(([name]) => !MOMENTARY.includes(name));
  return { status, headers: Object.fromEntries(kept), bytes: body.toString('latin1') };
}

/** Everything that stands in Redis, as text. */
export async function everythingIn(server: RedisServer): Promise<string> {
  const redis = server.client();
  const keys = await redis.keys('*');
  const dumps = keys.map(async (key) =>
    (await redis.type(key)) === 'hash' ? JSON.stringify(await redis.hgetall(key)) : await redis.get(key),
  );
  return [...keys, ...(await Promise.all(dumps))].join('\n');
}
