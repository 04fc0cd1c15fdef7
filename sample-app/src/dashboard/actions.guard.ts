import { ForbiddenException, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';

/** Why the page's buttons do nothing here; null when they work. */
export function actionsOff(env: NodeJS.ProcessEnv = process.env): string | null {
  return env.NODE_ENV === 'production'
    ? 'The buttons are switched off: this process runs with NODE_ENV=production.'
    : null;
}

/**
 * Lets only the page itself press its buttons, and nobody in production: they play the provider (they sign), make
 * orders and start processes. Browsers send `Origin` with every POST, and no page of another site can change it.
 */
@Injectable()
export class ActionsGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const off = actionsOff();
    if (off !== null) throw forbidden('ACTIONS_OFF', off);
    const { origin, host } = context.switchToHttp().getRequest<Request>().headers;
    if (host === undefined || hostOf(origin) !== host) {
      throw forbidden('CROSS_ORIGIN', 'Only the page of this server may do this.');
    }
    return true;
  }
}

function hostOf(origin: string | undefined): string | undefined {
  try {
    return new URL(origin ?? '').host;
  } catch {
    return undefined;
  }
}

const forbidden = (code: string, message: string): ForbiddenException =>
  new ForbiddenException({ statusCode: 403, code, message });
