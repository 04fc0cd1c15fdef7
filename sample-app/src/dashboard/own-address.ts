import type { AddressInfo } from 'node:net';
import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';

/** An answer as somebody outside sees it. */
export interface Answer {
  status: number;
  replayed: boolean;
  /** The `code` of an error. */
  code?: string;
  message?: string;
}

/** Sends requests to this very server over HTTP: as a provider or a buyer would, through every guard. */
@Injectable()
export class OwnAddress {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  async post(path: string, body: string, headers: Record<string, string>): Promise<Answer> {
    const response = await fetch(`${this.url}${path}`, { method: 'POST', headers, body });
    const text = await response.text();
    const { code, message } = parsed(text);
    return {
      status: response.status,
      replayed: response.headers.get('Idempotent-Replayed') === 'true',
      code: typeof code === 'string' ? code : undefined,
      message: Array.isArray(message) ? message.join(' ') : typeof message === 'string' ? message : undefined,
    };
  }

  private get url(): string {
    const { address, port, family } = this.adapterHost.httpAdapter.getHttpServer().address() as AddressInfo;
    const everywhere = address === '0.0.0.0' || address === '::';
    const host = everywhere ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address;
    return `http://${host}:${port}`;
  }
}

function parsed(text: string): { code?: unknown; message?: unknown } {
  try {
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}
