import type { ExecutionContext } from '@nestjs/common';
import type { StoredHeaders } from '../idempotency/stored-reply.js';

/** What both Express's response and Fastify's reply can do. */
interface ResponseLike {
  statusCode: number;
  status(code: number): unknown;
  getHeader(name: string): number | string | string[] | undefined;
  removeHeader(name: string): unknown;
  /** Express: Node's own, which changes nothing of the value. */
  setHeader?(name: string, value: string | string[]): unknown;
  /** Fastify. */
  header(name: string, value: string | string[]): unknown;
  headersSent?: boolean;
  sent?: boolean;
}

/**
 * Headers that describe the reply itself. All others belong to one connection, one client or one moment
 * (`set-cookie`, `date`, `content-length`, traces, rate limits) and are never kept.
 */
const SAFE_HEADERS = [
  'content-type',
  'content-language',
  'content-disposition',
  'location',
  'content-location',
  'etag',
  'last-modified',
  'link',
  'cache-control',
];

/** Said by a replay. A browser sees it only when CORS exposes it. */
export const REPLAYED_HEADER = 'Idempotent-Replayed';

/** The way out of one HTTP request, on Express and on Fastify. */
export class HttpReplyChannel {
  readonly #response: ResponseLike;
  readonly #kept: readonly string[];

  /** @param replayHeaders kept besides the safe ones, lower case. */
  constructor(context: ExecutionContext, replayHeaders: readonly string[]) {
    this.#response = context.switchToHttp().getResponse<ResponseLike>();
    this.#kept = [...SAFE_HEADERS, ...replayHeaders];
  }

  /**
   * The status as it stands: Nest sets that of `@HttpCode()` or of the method before the interceptors run, the
   * handler may have changed it.
   */
  get status(): number {
    return this.#response.statusCode;
  }

  /** Whether the handler answered by itself, behind Nest's back. */
  get answered(): boolean {
    return this.#response.headersSent === true || this.#response.sent === true;
  }

  setStatus(status: number): void {
    this.#response.status(status);
  }

  setHeader(name: string, value: string | string[]): void {
    // Express's own header() would add a charset to a content type that had none
    if (typeof this.#response.setHeader === 'function') this.#response.setHeader(name, value);
    else this.#response.header(name, value);
  }

  /** The headers that a replay gives again. */
  headers(): StoredHeaders {
    const headers: StoredHeaders = {};
    for (const name of this.#kept) {
      const value = this.#response.getHeader(name);
      if (value !== undefined) headers[name] = Array.isArray(value) ? value.map(String) : String(value);
    }
    return headers;
  }

  /** Makes the reply look like the first one. */
  markReplayed(status: number | undefined, headers: StoredHeaders | undefined): void {
    if (status !== undefined) this.setStatus(status);
    if (headers) {
      for (const name of this.#kept) {
        const value = headers[name];
        if (value !== undefined) this.setHeader(name, value);
        // set for every request by @Header(), and taken off by the handler the first time
        else if (this.#response.getHeader(name) !== undefined) this.#response.removeHeader(name);
      }
    }
    this.setHeader(REPLAYED_HEADER, 'true');
  }
}
