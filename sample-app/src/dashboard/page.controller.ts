import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  Controller,
  Get,
  Header,
  NotFoundException,
  Param,
  Res,
  ServiceUnavailableException,
  Sse,
  StreamableFile,
} from '@nestjs/common';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import type { DashboardMessage } from './dashboard-message.js';
import { DashboardFeed } from './dashboard.feed.js';

// From the sources and from dist alike.
const FOLDER = join(__dirname, '../../public');

/** What there is to fetch, and as what. Nothing else of the folder, and nothing outside of it. */
const FILES = new Map([
  ['index.html', 'text/html; charset=utf-8'],
  ['page.css', 'text/css; charset=utf-8'],
  ...['page.js', 'actions.js', 'dom.js', 'gates.js', 'locks.js', 'timeline.js', 'timeline-scale.js'].map(
    (name) => [name, 'text/javascript; charset=utf-8'] as const,
  ),
]);

/** Everything comes from this server, no script stands in the page, nobody frames it. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

@Controller()
export class PageController {
  constructor(private readonly feed: DashboardFeed) {}

  @Get()
  @Header('Content-Security-Policy', CONTENT_SECURITY_POLICY)
  @Header('Cache-Control', 'no-cache')
  @Header('X-Content-Type-Options', 'nosniff')
  page(): Promise<StreamableFile> {
    return this.file('index.html');
  }

  /**
   * A server that closes still answers on the connections that it has, and the page, whose stream has just ended, asks
   * again on one of them: that one has to go.
   */
  @Sse('dashboard/events')
  events(@Res({ passthrough: true }) response: Response): Observable<DashboardMessage> {
    if (!this.feed.closed) return this.feed.messages;
    response.setHeader('Connection', 'close');
    throw new ServiceUnavailableException({
      statusCode: 503,
      code: 'CLOSING',
      message: 'This process is shutting down.',
    });
  }

  @Get('dashboard/:file')
  @Header('Cache-Control', 'no-cache')
  @Header('X-Content-Type-Options', 'nosniff')
  async file(@Param('file') name: string): Promise<StreamableFile> {
    const type = FILES.get(name);
    if (type === undefined) {
      throw new NotFoundException({
        statusCode: 404,
        code: 'NOT_FOUND',
        message: `There is no file ${JSON.stringify(name)}.`,
      });
    }
    return new StreamableFile(await readFile(join(FOLDER, name)), { type });
  }
}
