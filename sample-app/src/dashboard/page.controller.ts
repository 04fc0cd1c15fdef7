import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Controller, Get, Header, NotFoundException, Param, Sse, StreamableFile } from '@nestjs/common';
import { type Observable } from 'rxjs';
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

  @Sse('dashboard/events')
  events(): Observable<DashboardMessage> {
    return this.feed.messages;
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
